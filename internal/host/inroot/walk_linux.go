package inroot

import (
	"errors"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// ErrTooManyEntries says that a tree has more entries than were asked for.
var ErrTooManyEntries = errors.New("too many entries to list")

// Walk visits the entries below the directory name down to a depth, each
// directory before what is in it and in the order of names, at most max in all.
// Links are visited, not followed. The visitor gets the path relative to name
// and the entry, opened for its path only, which is closed afterwards. What
// vanishes meanwhile is left out, and so is the inside of a directory below that
// may not be read.
func (r *Root) Walk(name string, depth, max int, visit func(rel string, entry *os.File) error) error {
	dir, err := r.OpenDir(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return (&walk{left: max, visit: visit}).dir(dir, "", min(depth, MaxDepth))
}

type walk struct {
	left  int
	visit func(string, *os.File) error
}

func (w *walk) dir(dir *os.File, rel string, depth int) error {
	names, err := w.names(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := passing(w.entry(dir, name, path.Join(rel, name), depth)); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) names(dir *os.File) ([]string, error) {
	var all []string
	for {
		names, err := dir.Readdirnames(batch)
		if err == io.EOF {
			slices.Sort(all)
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if w.left -= len(names); w.left < 0 {
			return nil, ErrTooManyEntries
		}
		all = append(all, names...)
	}
}

func (w *walk) entry(dir *os.File, name, rel string, depth int) error {
	entry, err := openBelow(dir, name, rel, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer entry.Close()
	if err := w.visit(rel, entry); err != nil {
		return err
	}
	if depth <= 1 {
		return nil
	}
	sub, err := openBelow(dir, name, rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer sub.Close()
	return w.dir(sub, rel, depth-1)
}
