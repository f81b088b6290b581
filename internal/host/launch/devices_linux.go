package launch

import (
	"errors"
	"os"
	"path/filepath"

	"aether/internal/host/memoryfs"

	"golang.org/x/sys/unix"
)

// makeDevices makes a file system of nodes that no other sandbox has: locks are kept with
// them. In a user namespace nobody makes nodes.
func makeDevices() (mount int, err error) {
	mount, err = memoryfs.New(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, [2]string{"size", "64k"}, [2]string{"mode", "755"})
	if err != nil {
		return -1, err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err = memoryfs.MakeDevices(mount, "."); err == nil {
		err = os.NewSyscallError("mount_setattr", unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attr))
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(mount))
	}
	return mount, nil
}

// ownDevices appends the covering of the host's devices, as this program sees them, by
// the sandbox's own. Without any, which is for ordinary users, they stay.
func (s script) ownDevices(mount int) {
	if mount < 0 {
		return
	}
	s.mkdir(devicePlace)
	s.Call(unix.SYS_MOVE_MOUNT, uintptr(mount), s.String(""), here, s.String(devicePlace), unix.MOVE_MOUNT_F_EMPTY_PATH)
	for _, d := range memoryfs.Devices {
		s.mount(filepath.Join(devicePlace, d.Name), filepath.Join("/dev", d.Name), "none", unix.MS_BIND, "")
	}
}
