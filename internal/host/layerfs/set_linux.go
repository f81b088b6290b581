package layerfs

import (
	"golang.org/x/sys/unix"
)

// Set gives an entry its owner, mode, time and attributes. Directories are set
// after everything in them: their times change with their contents, and their
// modes may forbid writing.
func (t *Tree) Set(name string, m Meta) error {
	parent, base := int(t.root.Fd()), "."
	if name != "." {
		var err error
		if parent, base, err = t.at(name); err != nil {
			return err
		}
	}
	var stat unix.Stat_t
	if err := unix.Fstatat(parent, base, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fault("stat", name, err)
	}
	return fault("set", name, t.set(parent, base, stat.Mode&unix.S_IFMT, m))
}

// set works in an order that counts: attributes need write permission, and a
// change of owner or content moves the times.
func (t *Tree) set(parent int, base string, kind uint32, m Meta) error {
	if kind == unix.S_IFREG || kind == unix.S_IFDIR {
		if err := setXattrs(parent, base, m.Xattrs); err != nil {
			return err
		}
	}
	if t.keepOwners {
		uid, gid := m.owner()
		if err := unix.Fchownat(parent, base, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if kind != unix.S_IFLNK {
		if err := unix.Fchmodat(parent, base, t.mode(kind, m), 0); err != nil {
			return err
		}
	}
	when := unix.Timespec{Sec: m.seconds(), Nsec: int64(m.ModTime.Nanosecond())}
	return unix.UtimesNanoAt(parent, base, []unix.Timespec{when, when}, unix.AT_SYMLINK_NOFOLLOW)
}

func (t *Tree) mode(kind uint32, m Meta) uint32 {
	if kind == unix.S_IFDIR && !t.keepOwners {
		return m.perm() | 0o700
	}
	return m.perm()
}

func setXattrs(parent int, base string, attrs map[string]string) error {
	for name, value := range attrs {
		if !keepXattr(name) {
			continue
		}
		if err := setXattr(parent, base, name, value); err != nil {
			return err
		}
	}
	return nil
}

// setXattr opens the entry, since the kernel has no setxattrat before 6.13.
func setXattr(parent int, base, name, value string) error {
	fd, err := unix.Openat(parent, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsetxattr(fd, name, []byte(value), 0)
}
