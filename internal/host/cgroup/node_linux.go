package cgroup

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// node is one directory of a cgroup file system, found from an open one above.
type node struct {
	dir  int
	name string
}

func (n node) child(name string) node { return node{n.dir, n.name + "/" + name} }

func (n node) open(file string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(n.dir, n.name+"/"+file, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// write stores one value in a control file; the kernel takes it in one call.
func (n node) write(file string, value []byte) error {
	fd, err := n.open(file, unix.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, value)
	for err == unix.EINTR {
		_, err = unix.Write(fd, value)
	}
	return errors.Join(err, unix.Close(fd))
}

// maxControlFile bounds what is read of a control file that has a few lines.
const maxControlFile = 4096

func (n node) read(file string) ([]byte, error) {
	fd, err := n.open(file, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readAt(fd)
}

// readAt reads a short file from its start, whatever was read of it before.
func readAt(fd int) ([]byte, error) {
	buf := make([]byte, maxControlFile)
	for {
		n, err := unix.Pread(fd, buf, 0)
		if err != unix.EINTR {
			return buf[:max(n, 0)], err
		}
	}
}

func (n node) exists(file string) bool {
	var st unix.Stat_t
	return unix.Fstatat(n.dir, n.name+"/"+file, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

func (n node) mkdir() error { return unix.Mkdirat(n.dir, n.name, 0o755) }

func (n node) rmdir() error { return unix.Unlinkat(n.dir, n.name, unix.AT_REMOVEDIR) }

// children are the groups directly below.
func (n node) children() ([]node, error) {
	fd, err := unix.Openat(n.dir, n.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), n.name)
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var below []node
	for _, e := range entries {
		if e.IsDir() {
			below = append(below, n.child(e.Name()))
		}
	}
	return below, nil
}
