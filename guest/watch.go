//go:build linux

package guest

import (
	"errors"
	"fmt"
	"os"
	"path"
	"sync"

	"aether/internal/host/inroot"
	"aether/sandbox"

	pb "aether/guest/wire/filesystem"
)

const (
	maxWatchers      = 256
	maxWatchedDirs   = 8192
	maxPendingEvents = 16384
	maxPendingBytes  = maxMessage / 2
)

// watch collects the changes below a directory until somebody takes them.
type watch struct {
	*describer
	watcher *inroot.Watcher
	dir     string
	entries bool
	wake    chan struct{}

	mu     sync.Mutex
	events []*pb.FilesystemEvent
	size   int // of the events, on the wire
	failed error
}

// watchRequest is what both ways of watching ask for.
type watchRequest interface {
	GetPath() string
	GetRecursive() bool
	GetIncludeEntry() bool
	GetAllowNetworkMounts() bool
}

func (d *describer) watch(notifier *inroot.Notifier, req watchRequest) (*watch, error) {
	dir, err := d.homePath(req.GetPath(), d.workDir)
	if err != nil {
		return nil, err
	}
	if err := d.as.Do(func() error { return d.watchable(dir, req.GetAllowNetworkMounts()) }); err != nil {
		return nil, err
	}
	watcher, err := notifier.Watch(d.root, dir, d.as, req.GetRecursive(), maxWatchedDirs)
	if err != nil {
		return nil, watchError(err)
	}
	w := &watch{describer: d, watcher: watcher, dir: dir, entries: req.GetIncludeEntry(), wake: make(chan struct{}, 1)}
	go w.run()
	return w, nil
}

func (d *describer) watchable(dir string, network bool) error {
	f, err := d.root.Lookup(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := inroot.StatFile(f)
	if err != nil {
		return err
	}
	if !info.Mode.IsDir() {
		return sandbox.Invalidf("path", "%q is not a directory", clip(dir))
	}
	if on, err := inroot.OnNetwork(f); err != nil || !on || network {
		return err
	}
	return sandbox.Invalidf("allow_network_mounts", "%q is on a network file system, where changes made elsewhere are not seen", clip(dir))
}

func watchError(err error) error {
	if errors.Is(err, inroot.ErrTooMany) || errors.Is(err, inroot.ErrLost) {
		return &sandbox.Error{Class: sandbox.Exhausted, Op: "watch", Err: err}
	}
	return err
}

func (w *watch) run() {
	defer w.done()
	for {
		changes, err := w.watcher.Read()
		if !w.add(changes, err) {
			return
		}
	}
}

// add keeps events and says whether more may come.
func (w *watch) add(changes []inroot.Event, err error) bool {
	events, size := make([]*pb.FilesystemEvent, len(changes)), 0
	for i, change := range changes {
		events[i] = w.event(change)
		size += listedSize(events[i])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events, w.size = append(w.events, events...), w.size+size
	if len(w.events) > maxPendingEvents || w.size > maxPendingBytes {
		err = fmt.Errorf("%d changes wait: %w", len(w.events), inroot.ErrLost)
		w.events, w.size = nil, 0
	}
	w.failed = watchError(err)
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return err == nil
}

var eventTypes = [...]pb.EventType{
	inroot.Created: pb.EventType_EVENT_TYPE_CREATE, inroot.Written: pb.EventType_EVENT_TYPE_WRITE,
	inroot.Removed: pb.EventType_EVENT_TYPE_REMOVE, inroot.Renamed: pb.EventType_EVENT_TYPE_RENAME,
	inroot.Changed: pb.EventType_EVENT_TYPE_CHMOD,
}

func (w *watch) event(change inroot.Event) *pb.FilesystemEvent {
	e := &pb.FilesystemEvent{Name: text(change.Name), Type: eventTypes[change.Op]}
	gone := change.Op == inroot.Removed || change.Op == inroot.Renamed
	if !w.entries || gone {
		return e
	}
	// An entry that is gone again by now has nothing to say.
	_ = w.as.Do(func() (err error) {
		e.Entry, err = w.lookup(path.Join(w.dir, change.Name))
		return err
	})
	return e
}

// take gives the events so far, or how the watching ended.
func (w *watch) take() ([]*pb.FilesystemEvent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events, w.size = nil, 0
	if len(events) > 0 {
		return events, nil
	}
	return nil, w.failed
}

func (w *watch) close() error {
	if err := w.watcher.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// watchers holds the watches of clients that poll.
type watchers struct {
	mu     sync.Mutex
	all    map[string]*watch
	closed bool
}

func (ws *watchers) add(id string, w *watch) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed || len(ws.all) >= maxWatchers {
		return &sandbox.Error{Class: sandbox.Exhausted, Op: "watch", Reason: fmt.Sprintf("there are %d watchers already", len(ws.all)), Remedy: "remove those that are not needed"}
	}
	if ws.all == nil {
		ws.all = map[string]*watch{}
	}
	ws.all[id] = w
	return nil
}

func (ws *watchers) find(id string) (*watch, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.all[id]; w != nil {
		return w, nil
	}
	return nil, &sandbox.Error{Class: sandbox.NotFound, Field: "watcher_id", Reason: fmt.Sprintf("no watcher %q", clip(id))}
}

func (ws *watchers) remove(id string) error {
	w, err := ws.find(id)
	if err != nil {
		return err
	}
	ws.mu.Lock()
	delete(ws.all, id)
	ws.mu.Unlock()
	return w.close()
}

func (ws *watchers) close() (err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.closed = true
	for id, w := range ws.all {
		err = errors.Join(err, w.close())
		delete(ws.all, id)
	}
	return err
}
