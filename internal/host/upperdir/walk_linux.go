package upperdir

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Visitor is shown every entry of an upper directory, one directory after
// another. An error ends the walk.
type Visitor interface {
	// Enter comes before what is in a directory. fs.SkipDir leaves that out, and
	// Leave with it.
	Enter(*Entry) error
	// Visit is shown everything that is no directory.
	Visit(*Entry) error
	// Leave comes after what is in a directory.
	Leave(*Entry) error
}

// Walk shows a Visitor everything in the directory dir, beginning with that.
func Walk(ctx context.Context, dir *os.File, v Visitor) error {
	return (&walk{ctx: ctx, visitor: v, opaque: opaqueName}).run(dir)
}

func (w *walk) run(dir *os.File) error {
	defer w.unwind()
	root, err := newEntry(int(dir.Fd()), ".", ".")
	if err != nil {
		return err
	}
	if err := w.enter(root); err != nil {
		return skipped(err)
	}
	for len(w.levels) > 0 {
		if err := w.step(); err != nil {
			return err
		}
	}
	return nil
}

type walk struct {
	ctx     context.Context
	visitor Visitor
	opaque  string   // the attribute of directories that hide those below
	levels  []*level // open directories, the deepest last
	count   int
}

// level is a directory that is being read.
type level struct {
	entry    Entry
	names    []string
	giveBack func() error // nil, unless it was borrowed
}

// step goes on with the next name of the deepest directory, or leaves it.
func (w *walk) step() error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	l := w.levels[len(w.levels)-1]
	if len(l.names) == 0 {
		more, err := l.read()
		if err != nil {
			return err
		}
		if !more {
			return w.leave(l)
		}
		return nil
	}
	name := l.names[0]
	l.names = l.names[1:]
	return w.entry(l, name)
}

func (w *walk) entry(l *level, name string) error {
	if w.count++; w.count > MaxEntries {
		return errTooMany
	}
	e, err := newEntry(l.entry.fd, name, join(l.entry.Path, name))
	if err != nil {
		return err
	}
	if e.Kind != Directory {
		return w.visitor.Visit(&e)
	}
	return skipped(w.enter(e))
}

// join is path.Join for a clean path and a name, which is hostile but has no
// slash and is no dots: it came from a directory.
func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

func skipped(err error) error {
	if err == fs.SkipDir {
		return nil
	}
	return err
}

func (w *walk) enter(e Entry) error {
	if len(w.levels) == MaxDepth {
		return errTooDeep
	}
	l := &level{entry: e}
	if err := l.open(); err != nil {
		return err
	}
	w.levels = append(w.levels, l)
	opaque, err := isOpaque(l.entry.fd, w.opaque)
	if err != nil {
		return fault("getxattr", e.Path, err)
	}
	l.entry.Opaque = opaque
	err = w.visitor.Enter(&l.entry)
	if err == fs.SkipDir {
		if err := w.drop(); err != nil {
			return err
		}
	}
	return err
}

// open opens the directory, which stays borrowed while it is open: its mode is
// asked again at every look into it.
func (l *level) open() (err error) {
	e := &l.entry
	if unix.Geteuid() != 0 && e.Perm&0o500 != 0o500 {
		if l.giveBack, err = e.borrow(); err != nil {
			return err
		}
	}
	if e.fd, err = openNoFollow(e.parent, e.name, unix.O_DIRECTORY); err != nil {
		e.fd = -1
		return errors.Join(fault("open", e.Path, err), l.close())
	}
	return nil
}

func (l *level) close() (err error) {
	if l.giveBack != nil {
		err = l.giveBack()
	}
	if l.entry.fd >= 0 {
		unix.Close(l.entry.fd)
	}
	return err
}

// read gets the next names; false says that there are no more.
func (l *level) read() (bool, error) {
	var buffer [8 << 10]byte
	n, err := unix.ReadDirent(l.entry.fd, buffer[:])
	if err != nil {
		return false, fault("readdir", l.entry.Path, err)
	}
	_, _, l.names = unix.ParseDirent(buffer[:n], -1, l.names[:0])
	return n > 0, nil
}

func (w *walk) leave(l *level) error {
	if err := w.visitor.Leave(&l.entry); err != nil {
		return err
	}
	return w.drop()
}

// drop closes the deepest directory.
func (w *walk) drop() error {
	last := len(w.levels) - 1
	l := w.levels[last]
	w.levels = w.levels[:last]
	return l.close()
}

// unwind closes what an error left open. What was borrowed must be given back;
// that it cannot be is no news after the error that brought us here.
func (w *walk) unwind() {
	for len(w.levels) > 0 {
		_ = w.drop()
	}
}
