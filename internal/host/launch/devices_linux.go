package launch

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// devices are what programs show to their sandboxes of the host's: in a user namespace
// nobody makes nodes.
var devices = []struct {
	name         string
	major, minor uint32
}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}}

// makeDevices makes a file system of nodes that no other sandbox has: locks are kept with
// them.
func makeDevices() (mount int, err error) {
	context, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(context)
	err = errors.Join(unix.FsconfigSetString(context, "size", "64k"), unix.FsconfigSetString(context, "mode", "755"), unix.FsconfigCreate(context))
	if err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	if mount, err = unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
		return -1, os.NewSyscallError("fsmount", err)
	}
	if err := makeNodes(mount); err != nil {
		return -1, errors.Join(err, unix.Close(mount))
	}
	return mount, nil
}

func makeNodes(mount int) error {
	for _, d := range devices {
		if err := unix.Mknodat(mount, d.name, unix.S_IFCHR, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return os.NewSyscallError("mknodat", err)
		}
		// Not by the call above, which heeds the umask.
		if err := unix.Fchmodat(mount, d.name, 0o666, 0); err != nil {
			return os.NewSyscallError("fchmodat", err)
		}
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	return os.NewSyscallError("mount_setattr", unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr))
}

// ownDevices appends the covering of the host's devices, as this program sees them, by
// the sandbox's own. Without any, which is for ordinary users, they stay.
func (s script) ownDevices(mount int) {
	if mount < 0 {
		return
	}
	s.mkdir(devicePlace)
	s.Call(unix.SYS_MOVE_MOUNT, uintptr(mount), s.String(""), here, s.String(devicePlace), unix.MOVE_MOUNT_F_EMPTY_PATH)
	for _, d := range devices {
		s.mount(filepath.Join(devicePlace, d.name), filepath.Join("/dev", d.name), "none", unix.MS_BIND, "")
	}
}
