package loopdisk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A lasting disk outlives who uses it, and a loss of power: it has a journal, and what
// was synced is on the disk of the host. It is attached to a directory, for others to
// find it, and remains so when this program is killed.

// LeastLasting is the smallest size of a lasting disk, a quarter of which is journal.
const LeastLasting = 16 << 20

// FormatLasting is Format of a lasting disk that is empty. It is on disk when
// FormatLasting returns. Errors: as Format.
func FormatLasting(ctx context.Context, file string, size int64) error {
	if size < LeastLasting {
		return unsupported(fmt.Sprintf("a disk that lasts has at least %d bytes", LeastLasting), "allow as many", nil)
	}
	if err := run(ctx, file, size, "-O", features+",has_journal", "-J", fmt.Sprintf("size=%d", journal(size))); err != nil {
		return err
	}
	return syncFile(file)
}

// journal is how many MiB of a disk keep what is being written: a small part of it, and
// no less than the kernel takes.
func journal(size int64) int64 { return min(max(size>>20/128, 4), 64) }

func syncFile(name string) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("loopdisk: %w", err)
	}
	return errors.Join(file.Sync(), file.Close())
}

// Attach mounts a lasting disk on a directory. A device that the file is behind already,
// since somebody has not let go of it yet, is used again: two for one file system would
// destroy it. Errors: Unsupported.
func Attach(file, dir string) error {
	device, err := deviceOf(file)
	if err != nil {
		return err
	}
	defer device.Close() // the mount keeps it
	fd, err := mountDevice(device.Name())
	if err != nil {
		return fmt.Errorf("loopdisk: mount %s: %w", file, err)
	}
	defer unix.Close(fd)
	err = unix.MoveMount(fd, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH)
	return os.NewSyscallError("move_mount", err)
}

// deviceOf opens the device that a file is behind, or puts it behind one.
func deviceOf(file string) (*os.File, error) {
	backing, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("loopdisk: %w", err)
	}
	defer backing.Close()
	device, err := findDevice(backing)
	if device != nil || err != nil {
		return device, err
	}
	return attach(backing)
}

// findDevice finds the device that a file is behind, or nil. It does not go while it is
// open.
func findDevice(backing *os.File) (*os.File, error) {
	path, err := filepath.EvalSymlinks(backing.Name())
	if err != nil {
		return nil, fmt.Errorf("loopdisk: %w", err)
	}
	names, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil || strings.TrimSuffix(string(text), "\n") != path {
			continue // it is another's, or was detached meanwhile
		}
		device, err := openDevice(strings.Split(name, "/")[3], backing)
		if device != nil || err != nil {
			return device, err
		}
	}
	return nil, nil
}

// openDevice opens a device, unless that is not the file's any more.
func openDevice(name string, backing *os.File) (*os.File, error) {
	device, err := os.OpenFile("/dev/"+name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("loopdisk: %w", err)
	}
	status, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
	info, failed := backing.Stat()
	if err != nil || failed != nil || status.Inode != info.Sys().(*syscall.Stat_t).Ino {
		device.Close()
		return nil, failed
	}
	return device, nil
}

// Detach undoes Attach. Sandboxes that have the disk keep it. One that is not attached is
// no error.
func Detach(dir string) error {
	err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return os.NewSyscallError("umount2", err)
}
