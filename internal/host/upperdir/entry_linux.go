package upperdir

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Kind is what an entry is.
type Kind int

const (
	Unknown Kind = iota
	Directory
	File
	Symlink
	Fifo
	Socket
	// Whiteout hides what the layers below have by that name.
	Whiteout
)

// Entry is one thing that a sandbox wrote. It is valid until the next one.
type Entry struct {
	// Path leads from the upper directory to the entry; that itself is ".".
	Path string
	Kind Kind
	// Perm are the permission bits with set-user-id, set-group-id and sticky.
	Perm     uint32
	UID, GID uint32 // of the host
	Size     int64
	// Links is how many names the file has, and ID what they have in common.
	Links    uint64
	ID       ID
	Accessed time.Time
	Modified time.Time
	// Opaque says that a directory hides what the layers below have in it.
	Opaque bool

	name   string
	parent int // descriptor of the directory that holds it
	fd     int // of a directory itself, or -1
	dense  bool
}

// ID tells files apart.
type ID struct{ device, inode uint64 }

func newEntry(parent int, name, path string) (Entry, error) {
	var st unix.Stat_t
	err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return Entry{}, ErrChanged
	}
	if err != nil {
		return Entry{}, fault("stat", path, err)
	}
	return Entry{
		Path: path, Kind: kindOf(&st), Perm: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid, Size: st.Size,
		Links: uint64(st.Nlink), ID: ID{uint64(st.Dev), st.Ino},
		Accessed: time.Unix(st.Atim.Unix()), Modified: time.Unix(st.Mtim.Unix()),
		name: name, parent: parent, fd: -1, dense: st.Blocks*512 >= st.Size,
	}, nil
}

func kindOf(st *unix.Stat_t) Kind {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return Directory
	case unix.S_IFREG:
		return File
	case unix.S_IFLNK:
		return Symlink
	case unix.S_IFIFO:
		return Fifo
	case unix.S_IFSOCK:
		return Socket
	case unix.S_IFCHR:
		if st.Rdev == 0 {
			return Whiteout
		}
	}
	return Unknown
}

// Open opens a file or directory for reading.
func (e *Entry) Open() (*os.File, error) {
	fd, err := e.open()
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), e.Path), nil
}

func (e *Entry) open() (int, error) {
	if e.Kind != File && e.Kind != Directory {
		return -1, fault("open", e.Path, unix.EINVAL)
	}
	fd, err := openNoFollow(e.parent, e.name, 0)
	if err != unix.EACCES {
		return fd, fault("open", e.Path, err)
	}
	giveBack, err := e.borrow()
	if err != nil {
		return -1, err
	}
	fd, err = openNoFollow(e.parent, e.name, 0)
	if err := giveBack(); err != nil {
		return -1, err
	}
	return fd, fault("open", e.Path, err)
}

// borrow lets an ordinary user, whose the sandbox's files are, read what the
// sandbox has closed to its owner. Nothing runs there that could notice.
func (e *Entry) borrow() (giveBack func() error, err error) {
	fd, err := openNoFollow(e.parent, e.name, unix.O_PATH)
	if err != nil {
		return nil, fault("open", e.Path, err)
	}
	if err := chmodPath(fd, e.Perm|0o700); err != nil {
		unix.Close(fd)
		return nil, fault("chmod", e.Path, err)
	}
	return func() error {
		defer unix.Close(fd)
		return fault("chmod", e.Path, chmodPath(fd, e.Perm))
	}, nil
}

// chmodPath changes the mode of what an O_PATH descriptor holds: there is no
// call that takes such a descriptor before Linux 6.6.
func chmodPath(fd int, perm uint32) error {
	return unix.Chmod(descriptorPath(fd), perm)
}

func openNoFollow(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC|flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// Target reads a link.
func (e *Entry) Target() (string, error) {
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(e.parent, e.name, buffer)
	if err != nil {
		return "", fault("readlink", e.Path, err)
	}
	return string(buffer[:n]), nil
}
