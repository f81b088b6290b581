package filetree

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Dir is an open directory.
type Dir struct{ file *os.File }

// Info is what a directory says of one of its entries.
type Info struct {
	Name     string
	Mode     uint32 // type and permission bits, as the kernel has them
	UID, GID uint32
	Size     int64
	Links    uint64
	Dev, Ino uint64
	Rdev     uint64
	// Times are in nanoseconds since 1970. The changed one moves with everything
	// but the reading of a file and cannot be set back.
	Modified, Changed int64
}

// Kind is the type of the entry, as unix.S_IFDIR.
func (i Info) Kind() uint32 { return i.Mode & unix.S_IFMT }

// IsDir and its like spare callers the kernel's numbers.
func (i Info) IsDir() bool     { return i.Kind() == unix.S_IFDIR }
func (i Info) IsFile() bool    { return i.Kind() == unix.S_IFREG }
func (i Info) IsSymlink() bool { return i.Kind() == unix.S_IFLNK }

// IsDevice says that the entry is a character or block device.
func (i Info) IsDevice() bool { return i.Kind() == unix.S_IFCHR || i.Kind() == unix.S_IFBLK }

// IsWhiteout says that the entry hides its name in the overlay layers below.
func (i Info) IsWhiteout() bool { return i.Kind() == unix.S_IFCHR && i.Rdev == 0 }

// Open opens a directory by its path, of which the last part is not followed.
func Open(path string) (*Dir, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return &Dir{file}, nil
}

// Close closes the directory.
func (d *Dir) Close() error { return d.file.Close() }

// Sub opens a directory in this one.
func (d *Dir) Sub(name string) (*Dir, error) {
	file, err := d.openat(name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return &Dir{file}, nil
}

func (d *Dir) openat(name string, flags int) (*os.File, error) {
	full := d.file.Name() + "/" + name
	for {
		fd, err := unix.Openat(d.fd(), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0)
		if err == nil {
			return os.NewFile(uintptr(fd), full), nil
		}
		if err != unix.EINTR {
			return nil, &os.PathError{Op: "open", Path: full, Err: err}
		}
	}
}

// OpenFile opens a file somewhere below, by a relative path no part of which may
// be a link.
func (d *Dir) OpenFile(path string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	full := d.file.Name() + "/" + path
	for {
		fd, err := unix.Openat2(d.fd(), path, &how)
		if err == nil {
			return os.NewFile(uintptr(fd), full), nil
		}
		if err != unix.EINTR && err != unix.EAGAIN {
			return nil, &os.PathError{Op: "open", Path: full, Err: err}
		}
	}
}

// Self is the entry of the directory itself, without a name.
func (d *Dir) Self() (Info, error) { return d.stat("", unix.AT_EMPTY_PATH) }

// Entries lists the directory by name. An entry that is gone by the time it is
// looked at is left out.
func (d *Dir) Entries() ([]Info, error) {
	names, err := d.file.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	list := make([]Info, 0, len(names))
	for _, name := range names {
		info, err := d.stat(name, unix.AT_SYMLINK_NOFOLLOW)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, info)
	}
	return list, nil
}

func (d *Dir) stat(name string, flags int) (Info, error) {
	var s unix.Stat_t
	if err := unix.Fstatat(d.fd(), name, &s, flags); err != nil {
		return Info{}, &os.PathError{Op: "stat", Path: d.file.Name() + "/" + name, Err: err}
	}
	return Info{Name: name, Mode: s.Mode, UID: s.Uid, GID: s.Gid, Size: s.Size, Links: uint64(s.Nlink),
		Dev: uint64(s.Dev), Ino: s.Ino, Rdev: uint64(s.Rdev), Modified: s.Mtim.Nano(), Changed: s.Ctim.Nano()}, nil
}

// Readlink gives the target of a link.
func (d *Dir) Readlink(name string) (string, error) {
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(d.fd(), name, buffer)
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: d.file.Name() + "/" + name, Err: err}
	}
	return string(buffer[:n]), nil
}

func (d *Dir) fd() int { return int(d.file.Fd()) }

// maxAttrs is what the kernel allows for the names of a file's attributes, and
// for each value.
const maxAttrs = 64 << 10

// Attrs gives those attributes of an entry, "." for the directory itself, that
// the caller wants and may read. A file system without any has an empty answer.
func (d *Dir) Attrs(name string, want func(attr string) bool) (map[string]string, error) {
	// The kernel has no listxattrat before 6.13; this path ends at the entry, and
	// its last part is not followed.
	path := fmt.Sprintf("/proc/self/fd/%d/%s", d.fd(), name)
	size, err := unix.Llistxattr(path, nil)
	if size == 0 || err != nil {
		return nil, d.attrError(name, err)
	}
	list := make([]byte, maxAttrs)
	n, err := unix.Llistxattr(path, list)
	if err != nil {
		return nil, d.attrError(name, err)
	}
	var attrs map[string]string
	for attr := range strings.SplitSeq(strings.TrimRight(string(list[:n]), "\x00"), "\x00") {
		if !want(attr) {
			continue
		}
		value := make([]byte, maxAttrs)
		size, err := unix.Lgetxattr(path, attr, value)
		if err != nil {
			continue // gone by now, or not for this user
		}
		if attrs == nil {
			attrs = map[string]string{}
		}
		attrs[attr] = string(value[:size])
	}
	return attrs, nil
}

func (d *Dir) attrError(name string, err error) error {
	switch err {
	case nil, unix.ENOTSUP, unix.EACCES, unix.EPERM, unix.ENODATA:
		return nil
	}
	return &os.PathError{Op: "listxattr", Path: d.file.Name() + "/" + name, Err: err}
}
