package inroot

import (
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// follow keeps the set of watched directories in step with the tree.
func (w *Watcher) follow(mask uint32, name string) (found []Event, err error) {
	switch {
	case mask&unix.IN_MOVED_FROM != 0:
		return nil, w.forget(name)
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) == 0:
		return nil, nil
	}
	err = w.as.Do(func() error { return passing(w.addNew(name, &found)) })
	if mask&unix.IN_MOVED_TO != 0 {
		found = nil // what came along with a move is not new
	}
	return found, err
}

// addNew watches a directory that has just appeared, unless what is now at the
// watched path is another directory.
func (w *Watcher) addNew(name string, found *[]Event) error {
	top, node, err := w.open()
	if err != nil {
		return err
	}
	defer top.Close()
	if node != w.node {
		return nil
	}
	dir, err := openBelow(top, name, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	return w.add(dir, name, found)
}

// forget ends the watching of a subtree that was moved away.
func (w *Watcher) forget(name string) error {
	for dir, wd := range w.wds {
		if dir != name && !strings.HasPrefix(dir, name+"/") {
			continue
		}
		delete(w.wds, dir)
		delete(w.paths, wd)
		if err := w.notifier.unsubscribe(w, wd); err != nil {
			return err
		}
	}
	return nil
}

// add watches one directory and, if asked to, those below it. Entries that are
// already there when a new directory is reached are reported in found.
func (w *Watcher) add(dir *os.File, name string, found *[]Event) error {
	if len(w.wds) >= w.max {
		return ErrTooMany
	}
	wd, err := w.notifier.subscribe(w, dir)
	if errors.Is(err, unix.ENOSPC) {
		return ErrTooMany
	}
	if err != nil {
		return pathError("watch", name, err)
	}
	w.paths[wd], w.wds[name] = name, wd
	if !w.recursive {
		return nil
	}
	return w.addBelow(dir, name, found)
}

func (w *Watcher) addBelow(dir *os.File, name string, found *[]Event) error {
	// A second descriptor, because dir may be one for its path only.
	list, err := openBelow(dir, ".", name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return passing(err)
	}
	defer list.Close()
	for {
		names, err := list.Readdirnames(batch)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for _, child := range names {
			if err := w.addEntry(list, child, path.Join(name, child), found); err != nil {
				return err
			}
		}
	}
}

func (w *Watcher) addEntry(dir *os.File, child, name string, found *[]Event) error {
	if found != nil && !isDraft(child) {
		*found = append(*found, Event{name, Created})
	}
	if strings.Count(name, "/") >= MaxDepth {
		return ErrTooMany
	}
	sub, err := openBelow(dir, child, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return passing(err)
	}
	defer sub.Close()
	return w.add(sub, name, found)
}

// passing drops the errors of an entry that is no directory, is gone already or
// may not be read: it is not watched, and nothing is wrong.
func passing(err error) error {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES} {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}
