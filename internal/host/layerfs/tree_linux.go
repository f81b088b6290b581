package layerfs

import (
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Tree is a directory that a layer is written into. It is not safe for use from
// several goroutines, and nobody else may change the directory meanwhile.
//
// Names are relative, slash-separated and clean, without "..": the caller sees to
// that, and the kernel holds it (a name that climbs or leads through an absolute
// link stays below the root). Missing parents are made. Parents may be links of
// the same layer; the last part of a name is never followed.
//
// A later entry takes the place of an earlier one, except that a directory is
// only ever replaced by a directory, which keeps what it holds. Errors: Invalid
// for what only a broken or hostile layer asks for, Exhausted for a full disk,
// Unavailable for a file system that cannot hold layers.
type Tree struct {
	root       *os.File
	keepOwners bool
	implied    int64

	// The last parent, since archives list directory by directory.
	parentName string
	parent     *os.File
}

// Open starts writing to dir, which exists and is empty.
func Open(dir string) (*Tree, error) {
	root, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	keep, err := mayGiveAway(root)
	if err != nil {
		return nil, fault("chown", dir, err)
	}
	return &Tree{root: root, keepOwners: keep}, nil
}

// mayGiveAway finds out by doing it once: being root is neither needed nor enough
// (user namespaces, capabilities, file systems with a mind of their own). Whoever may
// but could not show files under other ids (CAP_SYS_ADMIN), as root in a container,
// keeps them all the same: to its sandboxes, which have one id, they would be nobody's.
func mayGiveAway(dir *os.File) (bool, error) {
	if !mayMap() {
		return false, nil
	}
	var was unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &was); err != nil {
		return false, err
	}
	if unix.Fchown(int(dir.Fd()), maxID, maxID) != nil {
		return false, nil
	}
	return true, unix.Fchown(int(dir.Fd()), int(was.Uid), int(was.Gid))
}

func mayMap() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// Implied counts the parents that were made without an entry of their own: one
// entry can ask for as many as its name has parts.
func (t *Tree) Implied() int64 { return t.implied }

// Close ends the writing. It does not remove anything.
func (t *Tree) Close() error {
	t.forgetParent()
	return t.root.Close()
}

// at gives the directory that holds name, and the last part of name.
func (t *Tree) at(name string) (int, string, error) {
	dir, base := path.Split(name)
	parent, err := t.directory(path.Clean("./" + dir))
	return parent, base, err
}

func (t *Tree) directory(name string) (int, error) {
	if name == "." {
		return int(t.root.Fd()), nil
	}
	if t.parent != nil && t.parentName == name {
		return int(t.parent.Fd()), nil
	}
	fd, err := t.descend(name)
	if err != nil {
		return -1, err
	}
	t.forgetParent()
	t.parent, t.parentName = os.NewFile(uintptr(fd), name), name
	return fd, nil
}

func (t *Tree) forgetParent() {
	if t.parent != nil {
		t.parent.Close()
		t.parent = nil
	}
}

// descend opens a directory for use as a parent, and makes it if it is missing.
func (t *Tree) descend(name string) (int, error) {
	fd, err := t.open(name, unix.O_PATH|unix.O_DIRECTORY)
	if err != unix.ENOENT {
		return fd, fault("open", name, err)
	}
	parent, base, err := t.at(name)
	if err != nil {
		return -1, err
	}
	if err := makeDir(parent, base); err != nil && err != unix.EEXIST {
		return -1, fault("mkdir", name, err)
	}
	t.implied++
	fd, err = t.open(name, unix.O_PATH|unix.O_DIRECTORY)
	return fd, fault("open", name, err)
}

// makeDir makes a directory for all to read, whatever the umask.
func makeDir(parent int, base string) error {
	if err := unix.Mkdirat(parent, base, 0o700); err != nil {
		return err
	}
	return unix.Fchmodat(parent, base, 0o755, 0)
}

// open resolves name as if the tree were the whole file system.
func (t *Tree) open(name string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV}
	for {
		fd, err := unix.Openat2(int(t.root.Fd()), name, &how)
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}
