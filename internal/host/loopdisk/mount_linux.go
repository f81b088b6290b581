package loopdisk

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Supported says whether a disk of a size can be made here, as far as that can be
// told without making one. Errors: Unsupported, with what would mend it.
func Supported(size int64) error {
	if size < Least {
		return tooSmall()
	}
	control, err := openControl()
	if err != nil {
		return err
	}
	control.Close()
	_, err = formatter()
	return err
}

func openControl() (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrPermission):
		return nil, unsupported("this user may not use loop devices", "run aether as root", err)
	case err != nil:
		return nil, unsupported("this host has no loop devices", "modprobe loop", err)
	}
	return control, nil
}

// Mount mounts the file system in a file that Format made, and gives the mount
// as a descriptor. The mount and its device end with the last of those who hold
// it, use it or have attached it. Errors: Unsupported.
func Mount(file string) (mount *os.File, err error) {
	backing, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("loopdisk: %w", err)
	}
	defer backing.Close()
	device, err := attach(backing)
	if err != nil {
		return nil, err
	}
	defer device.Close() // the mount keeps it
	fd, err := mountDevice(device.Name(), "nobarrier", "noinit_itable", "nodiscard")
	if err != nil {
		return nil, fmt.Errorf("loopdisk: mount %s: %w", file, err)
	}
	return os.NewFile(uintptr(fd), file), nil
}

// attempts bounds how often another program may be faster to a free device.
const attempts = 64

// attach finds a free device and puts the file behind it, in one step, so that
// nobody sees it half made and it has its end from its beginning on.
func attach(backing *os.File) (device *os.File, err error) {
	control, err := openControl()
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range attempts {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, refused(os.NewSyscallError("LOOP_CTL_GET_FREE", err))
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
		if err != nil {
			return nil, refused(err)
		}
		err = configure(device, backing)
		if err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, refused(err)
		}
	}
	return nil, fmt.Errorf("loopdisk: every free loop device was taken by others: %w", unix.EBUSY)
}

// configure has the kernel read past its own cache of the file, where the file
// system below lets it: the disk's files are cached already, and for the cell.
func configure(device, backing *os.File) error {
	config := unix.LoopConfig{Fd: uint32(backing.Fd())}
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
	return os.NewSyscallError("LOOP_CONFIGURE", unix.IoctlLoopConfigure(int(device.Fd()), &config))
}

// refused tells a host that gives no loop devices, as in most containers, from a
// failure.
func refused(err error) error {
	for _, denial := range []error{os.ErrPermission, os.ErrNotExist, unix.ENXIO, unix.ENODEV, unix.ENOTTY, unix.EINVAL} {
		if errors.Is(err, denial) {
			return unsupported("this host gives no loop device", "allow loop devices to this program, on Linux 5.8 or later", err)
		}
	}
	return fmt.Errorf("loopdisk: %w", err)
}

// mountDevice mounts an ext4 in no namespace, with these flags. With nobarrier it never
// waits for the device to have written, and nothing of it is meant to outlast a crash
// of the host.
func mountDevice(device string, flags ...string) (int, error) {
	fs, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		if errors.Is(err, unix.ENODEV) {
			return -1, unsupported("this kernel has no ext4", "modprobe ext4", err)
		}
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fs)
	err = unix.FsconfigSetString(fs, "source", device)
	for _, flag := range flags {
		if err == nil {
			err = unix.FsconfigSetFlag(fs, flag)
		}
	}
	if err == nil {
		err = unix.FsconfigSetString(fs, "errors", "remount-ro")
	}
	if err == nil {
		err = unix.FsconfigCreate(fs)
	}
	if err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	return fd, os.NewSyscallError("fsmount", err)
}
