package upperdir

import (
	"os"

	"golang.org/x/sys/unix"
)

// Open opens the plain file that a sandbox has written at a path below its root, for
// reading. It says whether the sandbox has written anything at that path or, in place
// of a directory, above it: what it has not is the image's. The file is nil if what was
// written is no plain file, but the absence of one, for example.
func Open(upper *os.File, path string) (file *os.File, written bool, err error) {
	fd, err := openWithin(int(upper.Fd()), path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	switch err {
	case nil:
	case unix.ENOENT:
		return nil, false, nil
	case unix.ENXIO, unix.ENOTDIR, unix.ELOOP, unix.EACCES:
		return nil, true, nil // a whiteout, a link, or closed to an ordinary user
	default:
		return nil, true, fault("open", path, err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, true, fault("stat", path, err)
	}
	return os.NewFile(uintptr(fd), path), true, nil
}
