package inroot

import (
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

const (
	// resolve also refuses the magic links of /proc, which lead anywhere.
	resolve = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS
	// maxTries bounds how often a look-up that raced with a rename is repeated:
	// the kernel answers EAGAIN where it cannot tell that ".." stayed inside.
	maxTries = 128
)

// Root is a directory that no path given to it leads out of.
type Root struct{ dir *os.File }

// New makes a Root of an opened directory (O_PATH is enough) and owns it.
func New(dir *os.File) *Root { return &Root{dir} }

// Open makes a Root of a directory of this process's own view.
func Open(dir string) (*Root, error) {
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return New(f), nil
}

// Close releases the directory.
func (r *Root) Close() error { return r.dir.Close() }

// Open opens name, following links, with the flags of open(2). A file that may
// block its opener (a fifo, a device) is opened without waiting.
func (r *Root) Open(name string, flags int, perm fs.FileMode) (*os.File, error) {
	return r.open(Clean(name), flags|unix.O_NONBLOCK|unix.O_NOCTTY, perm)
}

// Lookup finds what name leads to, without opening it for anything.
func (r *Root) Lookup(name string) (*os.File, error) {
	return r.open(Clean(name), unix.O_PATH, 0)
}

// Entry finds name itself, be it a link, without opening it for anything.
func (r *Root) Entry(name string) (*os.File, error) {
	return r.open(Clean(name), unix.O_PATH|unix.O_NOFOLLOW, 0)
}

// OpenDir opens a directory for reading.
func (r *Root) OpenDir(name string) (*os.File, error) {
	return r.open(Clean(name), unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// Stat describes what name leads to.
func (r *Root) Stat(name string) (Info, error) {
	return r.stat(name, 0)
}

// Lstat describes name itself, be it a link.
func (r *Root) Lstat(name string) (Info, error) {
	return r.stat(name, unix.O_NOFOLLOW)
}

func (r *Root) stat(name string, flags int) (Info, error) {
	f, err := r.open(Clean(name), unix.O_PATH|flags, 0)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	return infoOf(f)
}

// Readlink reads the link name.
func (r *Root) Readlink(name string) (string, error) {
	f, err := r.open(Clean(name), unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(f.Fd()), "", buf)
	if err != nil {
		return "", pathError("readlink", f.Name(), err)
	}
	return string(buf[:n]), nil
}

// Usage says how many bytes the file system of the root holds, and how many of
// them are free.
func (r *Root) Usage() (total, free uint64, err error) {
	var st unix.Statfs_t
	if err := control(r.dir, func(fd int) error { return unix.Fstatfs(fd, &st) }); err != nil {
		return 0, 0, os.NewSyscallError("fstatfs", err)
	}
	return st.Blocks * uint64(st.Bsize), st.Bavail * uint64(st.Bsize), nil
}

func (r *Root) open(name string, flags int, perm fs.FileMode) (*os.File, error) {
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Mode: uint64(perm.Perm()), Resolve: resolve}
	return openat2(r.dir, name, name, &how)
}

// openBelow opens one entry of a directory that is already open. The entry
// itself must not be a link.
func openBelow(dir *os.File, name, shown string, flags int) (*os.File, error) {
	how := unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	return openat2(dir, name, shown, &how)
}

func openat2(dir *os.File, name, shown string, how *unix.OpenHow) (*os.File, error) {
	for try := 0; ; try++ {
		var fd int
		err := control(dir, func(at int) (err error) {
			fd, err = unix.Openat2(at, name, how)
			return err
		})
		if err == unix.ENOSYS {
			fd, err = plain(dir, name, how)
		}
		if err == nil {
			return os.NewFile(uintptr(fd), shown), nil
		}
		if (err != unix.EAGAIN && err != unix.EINTR) || try == maxTries {
			return nil, pathError("open", shown, err)
		}
	}
}

// control uses a descriptor while it is held open. A bare number could by then
// be another file's: a root that is closed while it is being used must not turn
// into the root of the next sandbox.
func control(f *os.File, fn func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) { inner = fn(int(fd)) }); err != nil {
		return os.ErrClosed // the only reason there is
	}
	return inner
}

// Clean turns any path into an absolute one without dots. It works on the text
// alone: "link/.." is the directory that holds the link.
func Clean(name string) string { return path.Clean("/" + name) }

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
