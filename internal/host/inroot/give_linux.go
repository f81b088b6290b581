package inroot

import (
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// MkdirFor makes the topmost directory that is missing on the way to name, with the rights
// of maker, and gives it to owner, who can make the rest. One that is there already stays
// whose it is.
func (r *Root) MkdirFor(name string, perm fs.FileMode, maker, owner Identity) error {
	var dir *os.File
	err := maker.Do(func() (err error) {
		top, err := r.topMissing(name)
		if err != nil || top == "" {
			return err
		}
		p, err := r.Place(top)
		if err != nil {
			return err
		}
		defer p.Close()
		if err := p.Mkdir(perm); err != nil {
			if os.IsExist(err) {
				return nil // another has made it meanwhile
			}
			return err
		}
		dir, err = openBelow(p.dir, p.name, p.path, unix.O_RDONLY|unix.O_DIRECTORY)
		return err
	})
	if err != nil || dir == nil {
		return err
	}
	defer dir.Close()
	return give(dir, maker, owner)
}

// topMissing is the first directory that is missing on the way to name, or empty.
func (r *Root) topMissing(name string) (top string, err error) {
	for name = Clean(name); name != "/"; name = path.Dir(name) {
		if _, err := r.Stat(name); err == nil || !os.IsNotExist(err) {
			return top, err
		}
		top = name
	}
	return top, nil
}

// give changes the owner of a directory, which takes rights that maker has not got. What a
// sandbox may have put in its place is given only if it was the maker's too: it could be a
// directory of the host's, in one that is mounted.
func give(dir *os.File, maker, owner Identity) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return pathError("stat", dir.Name(), err)
	}
	if int(st.Uid) != maker.UID {
		return pathError("chown", dir.Name(), unix.EPERM)
	}
	if err := unix.Fchown(int(dir.Fd()), owner.UID, owner.GID); err != nil {
		return pathError("chown", dir.Name(), err)
	}
	return nil
}
