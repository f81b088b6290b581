package inroot

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Names of files that are being written. They tell a Watcher that the rename
// that follows is a write, and whether it replaced something.
const (
	draftPrefix   = ".aether-draft-"
	draftNew      = draftPrefix + "new-"
	draftReplaces = draftPrefix + "old-"
)

// Draft is a file that takes its place only when it is complete.
type Draft struct {
	*os.File
	from, to *Place
}

// NewDraft starts a file that Commit will put at name, in the directory that
// name has now. Existing permissions are kept, perm is for a new file. A name
// that leads through links is followed. Errors: EISDIR for a directory, EINVAL
// for anything else that is not a regular file.
func (r *Root) NewDraft(name string, perm fs.FileMode) (*Draft, error) {
	name, err := r.Resolve(name)
	if err != nil {
		return nil, err
	}
	to, err := r.Place(name)
	if err != nil {
		return nil, err
	}
	d, err := to.draft(perm)
	if err != nil {
		to.Close()
	}
	return d, err
}

func (p *Place) draft(perm fs.FileMode) (*Draft, error) {
	prefix := draftReplaces
	switch info, err := p.Lstat(); {
	case os.IsNotExist(err):
		prefix = draftNew
	case err != nil:
		return nil, err
	case info.Mode.IsDir():
		return nil, pathError("write", p.path, unix.EISDIR)
	case !info.Mode.IsRegular():
		return nil, pathError("write", p.path, unix.EINVAL)
	default:
		perm = info.Mode.Perm()
	}
	from := &Place{p.dir, prefix + rand.Text(), p.path}
	fd, err := unix.Openat(int(p.dir.Fd()), from.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(perm.Perm()))
	if err != nil {
		return nil, p.wrap("write", err)
	}
	// Not left to the mode above: the umask of this process is not the sandbox's.
	if err := unix.Fchmod(fd, uint32(perm.Perm())); err != nil {
		unix.Close(fd)
		return nil, p.wrap("chmod", err)
	}
	return &Draft{os.NewFile(uintptr(fd), p.path), from, p}, nil
}

// Commit puts the file in its place in one step and closes it.
func (d *Draft) Commit() error {
	defer d.to.Close()
	err := d.Close()
	if err == nil {
		err = d.from.Rename(d.to)
	}
	if err != nil {
		return errors.Join(err, d.from.unlink(0))
	}
	return nil
}

// Discard removes the file.
func (d *Draft) Discard() error {
	defer d.to.Close()
	return errors.Join(d.Close(), d.from.unlink(0))
}

func isDraft(name string) bool { return strings.HasPrefix(path.Base(name), draftPrefix) }
