package inroot

import (
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Op is what happened to a watched entry.
type Op int

const (
	Created Op = iota + 1
	Written
	Removed
	Renamed // away; the new name, if it is watched too, is Created
	Changed // owner, permissions or attributes
)

// Event is one change. Name is relative to the watched directory, "." for the
// directory itself.
type Event struct {
	Name string
	Op   Op
}

// ErrLost says that changes came faster than they were read, so that some are
// unknown. The Watcher is of no more use.
var ErrLost = errors.New("changes came faster than they could be reported")

// ErrTooMany says that a tree has more directories than may be watched.
var ErrTooMany = errors.New("too many directories to watch")

const interest = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_DELETE | unix.IN_ATTRIB | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// Watcher reports changes below a directory.
type Watcher struct {
	notifier  *Notifier
	root      *Root
	top       string
	node      node
	as        Identity
	recursive bool
	max       int

	paths map[int32]string
	wds   map[string]int32
	draft draftMove

	ready   chan struct{}  // has one while there is something to take
	dirs    map[int32]bool // of the Notifier, as is what follows
	pending []record
	failed  error
}

// draftMove is the half of a rename that took a draft away from its name.
type draftMove struct {
	cookie   uint32
	replaces bool
}

// node tells one directory from another at the same path.
type node struct{ dev, ino uint64 }

// Watch watches the directory name of a root, and what is below it if recursive, with the
// permissions of an identity and at most max directories. Errors: ErrTooMany.
func (n *Notifier) Watch(r *Root, name string, as Identity, recursive bool, max int) (*Watcher, error) {
	w := &Watcher{notifier: n, root: r, top: name, as: as, recursive: recursive, max: max,
		paths: map[int32]string{}, wds: map[string]int32{}, dirs: map[int32]bool{}, ready: make(chan struct{}, 1)}
	if err := n.join(w); err != nil {
		return nil, err
	}
	if err := as.Do(w.start); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *Watcher) start() error {
	dir, node, err := w.open()
	if err != nil {
		return err
	}
	defer dir.Close()
	w.node = node
	return w.add(dir, ".", nil)
}

// open opens the watched directory. It is not kept open: the kernel tells of its
// removal only when nobody holds it.
func (w *Watcher) open() (*os.File, node, error) {
	dir, err := w.root.OpenDir(w.top)
	if err != nil {
		return nil, node{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		dir.Close()
		return nil, node{}, pathError("stat", w.top, err)
	}
	return dir, node{uint64(st.Dev), st.Ino}, nil
}

// Close ends the watching and a Read that waits.
func (w *Watcher) Close() error { return w.notifier.leave(w) }

// tell wakes Read.
func (w *Watcher) tell() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// Read waits for changes. It must not be called by two at once. Errors:
// os.ErrClosed after Close, io.EOF once the directory is gone, ErrLost,
// ErrTooMany.
func (w *Watcher) Read() ([]Event, error) {
	for {
		records, err := w.notifier.take(w)
		events, failed := w.decode(records)
		if failed != nil {
			err = failed
		}
		if len(events) > 0 || err != nil {
			return events, err
		}
		<-w.ready
	}
}

func (w *Watcher) decode(records []record) (events []Event, err error) {
	for _, raw := range records {
		more, err := w.translate(raw)
		events = appendNew(events, more)
		if err != nil {
			return events, err
		}
	}
	return events, nil
}

// appendNew leaves out a write that follows the same write.
func appendNew(events, more []Event) []Event {
	for _, e := range more {
		if len(events) > 0 && e.Op == Written && events[len(events)-1] == e {
			continue
		}
		events = append(events, e)
	}
	return events
}

func (w *Watcher) translate(raw record) ([]Event, error) {
	dir, known := w.paths[raw.wd]
	if !known {
		return nil, nil
	}
	if raw.name == "" {
		return w.self(raw, dir)
	}
	name := path.Join(dir, raw.name)
	if isDraft(name) {
		w.noteDraft(raw)
		return nil, nil
	}
	if raw.mask&unix.IN_MOVED_TO != 0 && raw.cookie != 0 && raw.cookie == w.draft.cookie {
		return w.committed(name), nil
	}
	events := eventsOf(raw.mask, name)
	if raw.mask&unix.IN_ISDIR == 0 || !w.recursive {
		return events, nil
	}
	found, err := w.follow(raw.mask, name)
	return append(events, found...), err
}

// self handles what happened to a watched directory itself. All but the top one
// are also reported by the directory above.
func (w *Watcher) self(raw record, dir string) ([]Event, error) {
	if raw.mask&unix.IN_IGNORED != 0 {
		delete(w.paths, raw.wd)
		if w.wds[dir] == raw.wd {
			delete(w.wds, dir)
		}
		if dir == "." {
			return nil, io.EOF
		}
		return nil, nil
	}
	if dir != "." {
		return nil, nil
	}
	return eventsOf(raw.mask, "."), nil
}

func (w *Watcher) noteDraft(raw record) {
	if raw.mask&unix.IN_MOVED_FROM != 0 {
		w.draft = draftMove{raw.cookie, strings.HasPrefix(raw.name, draftReplaces)}
	}
}

func (w *Watcher) committed(name string) []Event {
	if w.draft.replaces {
		return []Event{{name, Written}}
	}
	return []Event{{name, Created}, {name, Written}}
}

func eventsOf(mask uint32, name string) (events []Event) {
	for _, m := range [...]struct {
		bits uint32
		op   Op
	}{
		{unix.IN_CREATE | unix.IN_MOVED_TO, Created},
		{unix.IN_MOVED_FROM | unix.IN_MOVE_SELF, Renamed},
		{unix.IN_ATTRIB, Changed},
		{unix.IN_MODIFY, Written},
		{unix.IN_DELETE | unix.IN_DELETE_SELF, Removed},
	} {
		if mask&m.bits != 0 {
			events = append(events, Event{name, m.op})
		}
	}
	return events
}
