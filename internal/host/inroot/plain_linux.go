package inroot

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// plain is openat2 for a kernel that has none, as gVisor's. It serves one case:
// the root is this process's own, which no path leads out of anyway. Magic links
// of /proc are followed then, and lead to other places in the same root.
func plain(dir *os.File, name string, how *unix.OpenHow) (fd int, err error) {
	if how.Resolve&unix.RESOLVE_IN_ROOT == 0 {
		return plainEntry(dir, name, how)
	}
	if own, err := isOwnRoot(dir); err != nil || !own {
		return -1, unix.ENOSYS
	}
	return unix.Openat(unix.AT_FDCWD, Clean(name), int(how.Flags), uint32(how.Mode))
}

// plainEntry opens an entry that is no link.
func plainEntry(dir *os.File, name string, how *unix.OpenHow) (fd int, err error) {
	if name == ".." || strings.Contains(name, "/") {
		return -1, unix.EXDEV
	}
	err = control(dir, func(at int) (err error) {
		fd, err = unix.Openat(at, name, int(how.Flags)|unix.O_NOFOLLOW, uint32(how.Mode))
		return err
	})
	return fd, err
}

func isOwnRoot(dir *os.File) (bool, error) {
	var own, of unix.Stat_t
	if err := unix.Stat("/", &own); err != nil {
		return false, err
	}
	err := control(dir, func(fd int) error { return unix.Fstat(fd, &of) })
	return own.Dev == of.Dev && own.Ino == of.Ino, err
}
