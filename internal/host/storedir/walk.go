//go:build unix

package storedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	maxLinks = 40
	// elsewhere is the remedy for what others could have planted.
	elsewhere = "set AETHER_STATE_DIR to a directory of your own, below directories that nobody else can write to"
)

// Trusted says that nobody but the caller and root can change what a path leads to.
// Errors: Denied; fs.ErrNotExist if there is no such thing.
func Trusted(path string) error { return new(walk).to(path) }

// walk looks at every step of a path, from the root on. What it has found to be
// trusted stays so: an entry of the caller's or root's in a directory where nobody else
// may write, or only to entries of their own, is not replaced by others. So the path
// can be used by its name afterwards.
type walk struct {
	make  bool // the directories that are missing
	links int
}

func (w *walk) to(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	done, rest := "/", strings.Split(strings.Trim(path, "/"), "/")
	if err := w.look(done); err != nil {
		return err
	}
	for i, part := range rest {
		done = filepath.Join(done, part)
		if err := w.look(done); err != nil {
			return err
		}
		target, err := os.Readlink(done)
		if err != nil { // it is none
			continue
		}
		if w.links++; w.links > maxLinks {
			return &fs.PathError{Op: "resolve", Path: path, Err: syscall.ELOOP}
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(done), target)
		}
		return w.to(filepath.Join(target, filepath.Join(rest[i+1:]...)))
	}
	return nil
}

// stat looks at one step, or makes it.
func (w *walk) stat(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if w.make && errors.Is(err, fs.ErrNotExist) {
		if err := os.Mkdir(path, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		return os.Lstat(path) // which somebody else may have made first
	}
	return info, err
}

// look checks one step.
func (w *walk) look(path string) error {
	info, err := w.stat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return denied(elsewhere, "the owner of %s cannot be read", path)
	case !trustedUser(int(stat.Uid)):
		return denied(elsewhere, "%s belongs to user %d, who could lead this program astray", path, stat.Uid)
	case info.IsDir() && othersWrite(info.Mode(), int(stat.Gid)):
		return denied(elsewhere, "%s may be written by others (mode %v), who could lead this program astray", path, info.Mode())
	}
	return nil
}

// othersWrite says that somebody else may replace entries of a directory. A group of
// root's, or one with the number of the caller, which is nobody else's, is no other.
func othersWrite(mode fs.FileMode, gid int) bool {
	if mode&fs.ModeSticky != 0 {
		return false // there, entries are their owners'
	}
	private := gid == 0 || gid == os.Getegid() && gid == os.Geteuid()
	return mode.Perm()&0o002 != 0 || mode.Perm()&0o020 != 0 && !private
}

// trustedUser says that a user can do to the caller whatever it likes anyway.
func trustedUser(uid int) bool { return uid == 0 || uid == os.Geteuid() || uid == nobody && foreign() }
