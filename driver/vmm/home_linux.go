package vmm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"aether/internal/host/storedir"
	"aether/sandbox"
)

// home is a machine's directory, the workplace of a monitor that opens names. Once its monitor runs, names in it are the
// monitor's to change, so it is then only used through the open directories, and
// what is found there is checked.
type home struct {
	dir    string
	remove func() error
	path   string              // where the monitor works: dir, or a jail's root in it
	user   *syscall.Credential // the monitor's, or nil for our own

	root, saved *os.File

	jail Jail // nil for none
}

func newHome(ctx context.Context, parent string, jail Jail, user *syscall.Credential) (_ *home, err error) {
	h := &home{user: user, jail: jail}
	if h.dir, h.remove, err = storedir.Scratch(ctx, parent); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	h.path = h.dir
	if jail != nil {
		h.path = jail.Root(h.dir)
	}
	saved := filepath.Join(h.path, Saved)
	if err := os.MkdirAll(saved, 0o700); err != nil {
		return nil, err
	}
	if h.root, err = h.openOwned(h.path); err != nil {
		return nil, err
	}
	if h.saved, err = h.openOwned(saved); err != nil {
		return nil, err
	}
	return h, nil
}

// openOwned opens a directory and gives it to the monitor's user.
func (h *home) openOwned(name string) (*os.File, error) {
	dir, err := os.Open(name)
	if err == nil && h.user != nil {
		err = dir.Chown(int(h.user.Uid), int(h.user.Gid))
	}
	if err != nil && dir != nil {
		err = errors.Join(err, dir.Close())
	}
	return dir, err
}

func (h *home) close() error {
	for _, dir := range []*os.File{h.root, h.saved} {
		if dir != nil {
			dir.Close()
		}
	}
	return h.remove()
}

// within is a path that leads into an open directory, whatever its names are now.
func within(dir *os.File, name string) string {
	return filepath.Join(descriptorPath(int(dir.Fd())), name)
}

// share puts a file that machines have in common into the directory.
func (h *home) share(file *os.File, name string) error {
	if err := h.open(file); err != nil {
		return err
	}
	to := filepath.Join(h.path, name)
	if err := linkOrCopy(file, to); err != nil {
		return err
	}
	made, err := os.Open(to)
	if err != nil {
		return err
	}
	return errors.Join(h.open(made), made.Close()) // a copy is a file of its own
}

// open lets monitors read a file that is ours.
func (h *home) open(file *os.File) error {
	info, err := file.Stat()
	if err != nil || h.user == nil || info.Mode().Perm()&0o004 != 0 {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Gid == sharing && info.Mode().Perm()&0o040 != 0 {
		return nil
	}
	return errors.Join(file.Chown(-1, sharing), file.Chmod(info.Mode().Perm()|0o040))
}

// write makes a file that only this monitor reads.
func (h *home) write(name string, contents ...[]byte) error {
	file, err := os.OpenFile(filepath.Join(h.path, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	for _, content := range contents {
		if err == nil {
			_, err = file.Write(content)
		}
	}
	if err == nil && h.user != nil {
		err = file.Chown(int(h.user.Uid), -1)
	}
	return errors.Join(err, file.Close())
}

// drop removes a file that the monitor has read. It may be gone already.
func drop(dir *os.File, names ...string) error {
	var err error
	for _, name := range names {
		if removed := os.Remove(within(dir, name)); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}

// take moves a file that the monitor has written to where it cannot reach it. A
// monitor that a guest took over may have put anything there, and no link is
// followed.
func (h *home) take(name, to string) error {
	from := within(h.saved, name)
	err := os.Rename(from, to)
	if errors.Is(err, syscall.EXDEV) {
		err = errors.Join(copyPlain(from, to), drop(h.saved, name))
	}
	if err != nil {
		return err
	}
	return h.keep(to)
}

// keep makes a file our own, if it is one that the monitor made.
func (h *home) keep(name string) error {
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() || stat.Nlink != 1 || int(stat.Uid) != h.uid() && int(stat.Uid) != os.Geteuid() {
		return errors.Join(&sandbox.Error{Class: sandbox.Internal, Reason: "the monitor did not leave a file of its own as " + filepath.Base(name)},
			os.Remove(name))
	}
	return errors.Join(os.Lchown(name, os.Geteuid(), os.Getegid()), os.Chmod(name, 0o600))
}

func copyPlain(from, to string) error {
	source, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer source.Close()
	if info, err := source.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s is no file", filepath.Base(from)))
	}
	return copyTo(source, to)
}

func copyTo(source *os.File, to string) error {
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	info, err := source.Stat()
	if err == nil {
		// A reader of its own: others may share the descriptor's offset.
		_, err = io.Copy(file, io.NewSectionReader(source, 0, info.Size()))
	}
	return errors.Join(err, file.Close())
}

// linkOrCopy keeps a file that never changes under another name. Its own name may
// be gone; others may be names of it.
func linkOrCopy(file *os.File, name string, others ...string) error {
	for _, from := range append([]string{file.Name()}, others...) {
		linked, err := link(from, file, name)
		if linked || err != nil {
			return err
		}
	}
	return copyTo(file, name)
}

// link looks at what it got: names may change at any time.
func link(from string, file *os.File, to string) (bool, error) {
	if os.Link(from, to) != nil {
		return false, nil // on another file system, most likely
	}
	want, err := file.Stat()
	got, failed := os.Lstat(to)
	if err := errors.Join(err, failed); err != nil || os.SameFile(want, got) {
		return err == nil, err
	}
	return false, os.Remove(to)
}

// uid is who makes the sockets and files in the directory.
func (h *home) uid() int {
	if h.user == nil {
		return os.Geteuid()
	}
	return int(h.user.Uid)
}
