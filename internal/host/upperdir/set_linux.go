package upperdir

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// set gives an open file or directory the attributes, owner, mode and times of
// another. The order counts: a change of owner takes set-user-id bits away, and
// every change moves the times.
func (c *copier) set(to, from int, e *Entry) error {
	list, err := attrs(from)
	if err != nil {
		return err
	}
	for _, a := range list {
		if err := unix.Fsetxattr(to, a.Name, []byte(a.Value), 0); err != nil {
			return err
		}
	}
	if c.giveAway {
		uid, gid, err := c.owner(e.UID, e.GID)
		if err != nil {
			return err
		}
		if err := unix.Fchown(to, uid, gid); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(to, e.Perm); err != nil {
		return err
	}
	return setTimes(to, e.Accessed, e.Modified)
}

// dropAttrs takes the attributes of the image away that the other has not.
func dropAttrs(to, from int) error {
	has, err := attrNames(to)
	if err != nil {
		return err
	}
	for _, name := range has {
		_, err := unix.Fgetxattr(from, name, nil)
		if err == unix.ENODATA {
			err = unix.Fremovexattr(to, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setAt is set for what cannot be opened: a link, a fifo or a socket.
func (c *copier) setAt(name string, e *Entry) error {
	dir := c.parent().fd
	if c.giveAway {
		uid, gid, err := c.owner(e.UID, e.GID)
		if err != nil {
			return err
		}
		if err := unix.Fchownat(dir, name, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if e.Kind != Symlink {
		if err := chmodAt(dir, name, e.Perm); err != nil {
			return err
		}
	}
	return unix.UtimesNanoAt(dir, name, timespecs(e.Accessed, e.Modified), unix.AT_SYMLINK_NOFOLLOW)
}

// chmodAt never follows a link.
func chmodAt(dir int, name string, perm uint32) error {
	fd, err := openNoFollow(dir, name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return chmodPath(fd, perm)
}

func timespecs(accessed, modified time.Time) []unix.Timespec {
	return []unix.Timespec{
		{Sec: accessed.Unix(), Nsec: int64(accessed.Nanosecond())},
		{Sec: modified.Unix(), Nsec: int64(modified.Nanosecond())},
	}
}

func setTimes(fd int, accessed, modified time.Time) error {
	times := timespecs(accessed, modified)
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times[0])), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
