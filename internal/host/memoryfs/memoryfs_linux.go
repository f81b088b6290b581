package memoryfs

import (
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// New makes an empty file system, as a mount with attributes (MOUNT_ATTR_...). Options are
// names and values of tmpfs(5).
func New(attributes int, options ...[2]string) (mount int, err error) {
	context, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(context)
	for _, o := range append([][2]string{{"source", "tmpfs"}}, options...) {
		if err := unix.FsconfigSetString(context, o[0], o[1]); err != nil {
			return -1, fmt.Errorf("a tmpfs of %s %s: %w", o[0], o[1], os.NewSyscallError("fsconfig", err))
		}
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	mount, err = unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, attributes)
	return mount, os.NewSyscallError("fsmount", err)
}

// Devices are the nodes of a sandbox's /dev: none of them reaches hardware.
var Devices = []struct {
	Name         string
	major, minor uint32
}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}}

// MakeDevices makes the nodes in a directory of the mount, for everybody to open. They can
// be opened if the file system belongs to the host's own user namespace.
func MakeDevices(mount int, dir string) error {
	for _, d := range Devices {
		name := path.Join(dir, d.Name)
		if err := unix.Mknodat(mount, name, unix.S_IFCHR, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return &os.PathError{Op: "mknod", Path: name, Err: err}
		}
		// Not by the call above, which heeds the mask of this program.
		if err := unix.Fchmodat(mount, name, 0o666, 0); err != nil {
			return &os.PathError{Op: "chmod", Path: name, Err: err}
		}
	}
	return nil
}
