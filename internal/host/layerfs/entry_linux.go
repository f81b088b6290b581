package layerfs

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Mkdir makes a directory, or keeps the one that is there.
func (t *Tree) Mkdir(name string) error {
	if name == "." {
		return nil
	}
	return t.place("mkdir", name, func(parent int, base string) error {
		err := makeDir(parent, base)
		if err == unix.EEXIST && isDir(parent, base) {
			return nil
		}
		return err
	})
}

// File makes a file with the content, readable by its owner only until Set.
// Errors of the content's reader are given back as they are.
func (t *Tree) File(name string, content io.Reader) error {
	file, err := t.create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(writeFault(name, err), file.Close())
}

// writeFault tells the errors of the file from those of its content.
func writeFault(name string, err error) error {
	var write *fs.PathError
	if errors.As(err, &write) && write.Path == name {
		return fault("write", name, write.Err)
	}
	return err
}

func (t *Tree) create(name string) (file *os.File, err error) {
	err = t.place("create", name, func(parent int, base string) error {
		fd, err := unix.Openat(parent, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err == nil {
			file = os.NewFile(uintptr(fd), name)
		}
		return err
	})
	return file, err
}

// Symlink makes a link with any target, which is only ever resolved in sandboxes.
func (t *Tree) Symlink(target, name string) error {
	return t.place("symlink", name, func(parent int, base string) error {
		return unix.Symlinkat(target, parent, base)
	})
}

// Link gives the entry old a second name. A link is not followed.
func (t *Tree) Link(old, name string) error {
	oldParent, oldBase, err := t.pinned(old)
	if err != nil {
		return err
	}
	defer unix.Close(oldParent)
	return t.place("link", name, func(parent int, base string) error {
		switch {
		case isDir(oldParent, oldBase): // maybe only now, as a parent of name
			return unix.EISDIR
		case same(oldParent, oldBase, parent, base):
			return nil
		}
		return unix.Linkat(oldParent, oldBase, parent, base, 0)
	})
}

// Fifo makes a named pipe.
func (t *Tree) Fifo(name string) error {
	return t.place("mkfifo", name, func(parent int, base string) error {
		return unix.Mknodat(parent, base, unix.S_IFIFO|0o600, 0)
	})
}

// pinned is at with a descriptor that stays valid for the next call of at.
func (t *Tree) pinned(name string) (int, string, error) {
	parent, base, err := t.at(name)
	if err != nil {
		return -1, "", err
	}
	fd, err := unix.FcntlInt(uintptr(parent), unix.F_DUPFD_CLOEXEC, 0)
	return fd, base, fault("dup", name, err)
}

// place makes an entry, and makes room for it once if a non-directory is there.
func (t *Tree) place(op, name string, put func(parent int, base string) error) error {
	parent, base, err := t.at(name)
	if err != nil {
		return err
	}
	if err = put(parent, base); err != unix.EEXIST {
		return fault(op, name, err)
	}
	if err := unix.Unlinkat(parent, base, 0); err != nil {
		return fault("replace", name, err)
	}
	err = put(parent, base)
	// What went may have been a link on the way to the remembered parent.
	t.forgetParent()
	return fault(op, name, err)
}

func isDir(parent int, base string) bool {
	var stat unix.Stat_t
	err := unix.Fstatat(parent, base, &stat, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && stat.Mode&unix.S_IFMT == unix.S_IFDIR
}

// same says whether two names are one file: a link onto itself would otherwise
// remove the file to make room for it.
func same(dirA int, a string, dirB int, b string) bool {
	var statA, statB unix.Stat_t
	if unix.Fstatat(dirA, a, &statA, unix.AT_SYMLINK_NOFOLLOW) != nil || unix.Fstatat(dirB, b, &statB, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	return statA.Dev == statB.Dev && statA.Ino == statB.Ino
}
