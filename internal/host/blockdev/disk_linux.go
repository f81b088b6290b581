package blockdev

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Disk is a whole block device, as control groups name it.
type Disk struct{ Major, Minor uint32 }

func (d Disk) String() string { return fmt.Sprintf("%d:%d", d.Major, d.Minor) }

// sysfs tells a partition from its disk.
const sysfs = "/sys/dev/block/"

// whole gives the disk that a device is or is a partition of: the kernel takes no
// rate for a partition.
func whole(dir string, device uint64) (Disk, error) {
	d := Disk{unix.Major(device), unix.Minor(device)}
	node := dir + d.String()
	if _, err := os.Stat(node); err != nil {
		return d, fmt.Errorf("blockdev: %v is no disk: %w", d, err)
	}
	_, err := os.Stat(node + "/partition")
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return d, fmt.Errorf("blockdev: %w", err)
	}
	// The node is a link into the directory of its disk, so the dots are for the kernel.
	text, err := os.ReadFile(node + "/../dev")
	if err != nil {
		return d, fmt.Errorf("blockdev: the disk of partition %v: %w", d, err)
	}
	if _, err := fmt.Fscanf(bytes.NewReader(text), "%d:%d", &d.Major, &d.Minor); err != nil {
		return d, fmt.Errorf("blockdev: the disk of partition %v is %.40q: %w", d, text, err)
	}
	return d, nil
}
