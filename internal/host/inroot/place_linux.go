package inroot

import (
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Place is where an entry is or will be: its opened directory and its name
// there. Work on a Place cannot be diverted by swapping a parent.
type Place struct {
	dir  *os.File
	name string
	path string
}

// Place opens the directory of name. The root itself has no Place.
func (r *Root) Place(name string) (*Place, error) {
	name = Clean(name)
	if name == "/" {
		return nil, pathError("open", name, unix.EBUSY)
	}
	dir, err := r.open(path.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &Place{dir, path.Base(name), name}, nil
}

// Close releases the directory.
func (p *Place) Close() error { return p.dir.Close() }

// Lstat describes the entry, be it a link.
func (p *Place) Lstat() (Info, error) { return statEntry(p.dir, p.name) }

// Mkdir makes a directory with exactly these permissions, whatever the umask of
// this process.
func (p *Place) Mkdir(perm fs.FileMode) error {
	if err := unix.Mkdirat(int(p.dir.Fd()), p.name, uint32(perm.Perm())); err != nil {
		return p.wrap("mkdir", err)
	}
	dir, err := openBelow(p.dir, p.name, p.path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	return p.wrap("chmod", unix.Fchmod(int(dir.Fd()), uint32(perm.Perm())))
}

// Rename moves the entry, replacing what is at the destination.
func (p *Place) Rename(to *Place) error {
	return p.wrap("rename", unix.Renameat2(int(p.dir.Fd()), p.name, int(to.dir.Fd()), to.name, 0))
}

func (p *Place) unlink(flags int) error {
	return p.wrap("remove", unix.Unlinkat(int(p.dir.Fd()), p.name, flags))
}

func (p *Place) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return pathError(op, p.path, err)
}

// MkdirAll makes name and every directory missing above it.
func (r *Root) MkdirAll(name string, perm fs.FileMode) error {
	name = Clean(name)
	missing := []string{}
	for {
		switch info, err := r.Stat(name); {
		case err == nil && !info.Mode.IsDir():
			return pathError("mkdir", name, unix.ENOTDIR)
		case err == nil:
			return r.mkdirs(missing, perm)
		case !os.IsNotExist(err) || name == "/":
			return err
		}
		missing = append(missing, name)
		name = path.Dir(name)
	}
}

// mkdirs makes directories, the deepest first in the list. Somebody else may
// make them at the same time.
func (r *Root) mkdirs(missing []string, perm fs.FileMode) error {
	for i := len(missing) - 1; i >= 0; i-- {
		p, err := r.Place(missing[i])
		if err != nil {
			return err
		}
		err = p.Mkdir(perm)
		p.Close()
		if err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}
