package upperdir

import (
	"context"
	"crypto/rand"
	"io/fs"
	"os"
	"path"

	"aether/internal/host/inroot"

	"golang.org/x/sys/unix"
)

// Copy brings everything that a sandbox in which nothing runs has written, which
// is in the directory upper, into the root directory of another one that was just
// made of the same image. There it goes through the file system that the other
// sandbox sees, as if written anew: times, owners, links, holes and the absence of
// removed files are kept. What is mounted in the other root is left alone. Files
// are made in the name of the identity, the other sandbox's root, before they are
// given to their owners.
//
// After an error the other sandbox is good for nothing. Errors: Exhausted if it
// has not enough room or the tree is out of bounds.
func Copy(ctx context.Context, upper, root *os.File, maker inroot.Identity) error {
	return CopyFor(ctx, upper, root, maker, same)
}

func same(uid, gid uint32) (int, int, error) { return int(uid), int(gid), nil }

// CopyFor is Copy for other owners than those that files have in upper.
func CopyFor(ctx context.Context, upper, root *os.File, maker inroot.Identity, owner Owner) error {
	giveAway := os.Geteuid() == 0
	if !giveAway {
		owner = same // everything belongs to the one who copies
	}
	empty, err := isEmpty(int(upper.Fd()), int(root.Fd()), owner)
	if empty || err != nil {
		return err
	}
	c := &copier{ctx: ctx, root: int(root.Fd()), links: map[ID]string{}, draft: ".aether-" + rand.Text(), giveAway: giveAway, owner: owner}
	defer c.unwind()
	return as(maker, func() error { return Walk(ctx, upper, c) })
}

// isEmpty says whether nothing was written at all, and changed of the root
// directory itself.
func isEmpty(upper, root int, owner Owner) (bool, error) {
	from, err := newEntry(upper, ".", ".")
	if err != nil {
		return false, err
	}
	to, err := newEntry(root, ".", ".")
	if err != nil {
		return false, err
	}
	if uid, gid, err := owner(from.UID, from.GID); err != nil || from.Perm != to.Perm || uid != int(to.UID) || gid != int(to.GID) {
		return false, err
	}
	fd, err := openNoFollow(upper, ".", unix.O_DIRECTORY)
	if err != nil {
		return false, fault("open", ".", err)
	}
	defer unix.Close(fd)
	l := level{entry: Entry{Path: ".", fd: fd}}
	for more := true; more && len(l.names) == 0; {
		if more, err = l.read(); err != nil {
			return false, err
		}
	}
	return len(l.names) == 0, nil
}

// Owner gives the owner that a file is to have.
type Owner func(uid, gid uint32) (int, int, error)

// copier is the Visitor that writes what it is shown.
type copier struct {
	ctx      context.Context
	root     int
	draft    string // a name that nobody inside can have guessed
	giveAway bool
	owner    Owner
	dirs     []target      // where the walk is, the deepest last
	links    map[ID]string // the first names of files that have several
}

// target is an open directory of the other sandbox.
type target struct {
	fd    int
	fresh bool // it was made here, so that nothing can be in it
}

func (c *copier) parent() target { return c.dirs[len(c.dirs)-1] }

// Enter implements Visitor.
func (c *copier) Enter(e *Entry) error {
	to, err := c.directory(e)
	if err == unix.EXDEV {
		return fs.SkipDir // something of the host is mounted there
	}
	if err != nil {
		return fault("mkdir", e.Path, err)
	}
	c.dirs = append(c.dirs, to)
	return nil
}

// directory opens the other sandbox's directory of an entry, and makes it if it
// is missing or must show nothing of the image.
func (c *copier) directory(e *Entry) (target, error) {
	if e.Path == "." {
		fd, err := openWithin(c.root, ".", unix.O_RDONLY|unix.O_DIRECTORY)
		return target{fd: fd}, err
	}
	parent := c.parent()
	if !parent.fresh {
		fd, err := openWithin(parent.fd, e.name, unix.O_RDONLY|unix.O_DIRECTORY)
		if err == nil && !e.Opaque {
			return target{fd: fd}, nil
		}
		if err == nil {
			unix.Close(fd)
		} else if err == unix.EXDEV {
			return target{}, err
		}
		if err := remove(c.ctx, parent.fd, e.name, 0); err != nil {
			return target{}, err
		}
	}
	if err := unix.Mkdirat(parent.fd, e.name, 0o700); err != nil {
		return target{}, err
	}
	fd, err := openWithin(parent.fd, e.name, unix.O_RDONLY|unix.O_DIRECTORY)
	return target{fd, true}, err
}

// Leave implements Visitor. Only now is the time of the directory its own, and
// may its mode forbid to write.
func (c *copier) Leave(e *Entry) error {
	to := c.parent()
	c.dirs = c.dirs[:len(c.dirs)-1]
	defer unix.Close(to.fd)
	if !to.fresh {
		if err := dropAttrs(to.fd, e.fd); err != nil {
			return fault("removexattr", e.Path, err)
		}
	}
	return fault("set", e.Path, c.set(to.fd, e.fd, e))
}

// Visit implements Visitor.
func (c *copier) Visit(e *Entry) error {
	if e.Kind == Whiteout {
		return fault("remove", e.Path, remove(c.ctx, c.parent().fd, e.name, 0))
	}
	if first, ok := c.links[e.ID]; ok {
		return fault("link", e.Path, c.place(e, func(name string) error { return c.link(first, name) }))
	}
	var err error
	switch e.Kind {
	case File:
		err = c.file(e)
	case Symlink:
		err = c.symlink(e)
	case Fifo:
		err = c.node(e, unix.S_IFIFO)
	case Socket:
		err = c.node(e, unix.S_IFSOCK)
	default:
		err = unix.EINVAL // nobody in a sandbox can make a device
	}
	if err == nil && e.Links > 1 {
		c.links[e.ID] = e.Path
	}
	return fault("copy", e.Path, err)
}

func (c *copier) file(e *Entry) error {
	from, err := e.open()
	if err != nil {
		return err
	}
	defer unix.Close(from)
	return c.place(e, func(name string) error {
		to, err := unix.Openat(c.parent().fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		defer unix.Close(to)
		if err := copyData(c.ctx, to, from, e); err != nil {
			return err
		}
		return c.set(to, from, e)
	})
}

func (c *copier) symlink(e *Entry) error {
	to, err := e.Target()
	if err != nil {
		return err
	}
	return c.place(e, func(name string) error {
		if err := unix.Symlinkat(to, c.parent().fd, name); err != nil {
			return err
		}
		return c.setAt(name, e)
	})
}

func (c *copier) node(e *Entry, kind uint32) error {
	return c.place(e, func(name string) error {
		if err := unix.Mknodat(c.parent().fd, name, kind|0o600, 0); err != nil {
			return err
		}
		return c.setAt(name, e)
	})
}

// link gives the file that was first copied as another name.
func (c *copier) link(first, name string) error {
	dir, err := openWithin(c.root, path.Dir(first), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Linkat(dir, path.Base(first), c.parent().fd, name, 0)
}

// place makes an entry, in the place of what has its name. It takes that by a
// rename, for which the overlay need not copy the old one first.
func (c *copier) place(e *Entry, put func(name string) error) error {
	dir := c.parent().fd
	err := put(e.name)
	if err != unix.EEXIST {
		return err
	}
	if err := put(c.draft); err != nil {
		return err
	}
	err = unix.Renameat(dir, c.draft, dir, e.name)
	if err == unix.EISDIR {
		if err := remove(c.ctx, dir, e.name, 0); err != nil {
			return err
		}
		err = unix.Renameat(dir, c.draft, dir, e.name)
	}
	if err == unix.EBUSY {
		return unix.Unlinkat(dir, c.draft, 0) // something of the host is mounted there
	}
	return err
}

// unwind closes what an error left open.
func (c *copier) unwind() {
	for _, to := range c.dirs {
		unix.Close(to.fd)
	}
}

// openWithin opens something below a directory without following a link or
// crossing into what is mounted there.
func openWithin(dir int, name string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}
