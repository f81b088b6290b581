package inroot

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// maxPending bounds the records that wait for the Watchers of one Notifier.
	maxPending = 64 << 10
	// maxWatchers bounds how many of those there are, and maxDirs how many directories they
	// watch together.
	maxWatchers = 1024
	maxDirs     = 64 << 10
	// maxRecord is the size of a record with the longest name.
	maxRecord = unix.SizeofInotifyEvent + unix.NAME_MAX + 1
)

// Notifier is one inotify instance for all Watchers of a sandbox: the kernel lets a user have
// few, 128 by default, and a sandbox that floods its own disturbs no other's. There is an
// instance only while there are Watchers. The zero value is ready for use.
type Notifier struct {
	mu       sync.Mutex
	notify   *os.File
	watchers map[*Watcher]bool
	dirs     map[int32]map[*Watcher]bool // who wants to know of a directory
	count    int                         // of those, for all Watchers
	pending  int                         // records
	buf      []byte
	broken   error // why there is nobody who reads
}

// join counts a Watcher in, and makes the instance for the first.
func (n *Notifier) join(w *Watcher) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.watchers) >= maxWatchers {
		return ErrTooMany
	}
	if n.broken != nil {
		return n.broken
	}
	if n.notify == nil {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return os.NewSyscallError("inotify_init1", err)
		}
		n.notify, n.buf = os.NewFile(uintptr(fd), "inotify"), make([]byte, 64<<10)
		n.watchers, n.dirs = map[*Watcher]bool{}, map[int32]map[*Watcher]bool{}
		go n.run(n.notify)
	}
	n.watchers[w] = true
	return nil
}

// leave counts a Watcher out, and ends the instance with the last.
func (n *Notifier) leave(w *Watcher) error {
	last, err := n.remove(w)
	if last != nil {
		err = errors.Join(err, last.Close()) // which waits for run, and that for the lock
	}
	return err
}

// remove gives the instance that nobody needs any more, if there is one.
func (n *Notifier) remove(w *Watcher) (last *os.File, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.watchers[w] {
		return nil, os.ErrClosed
	}
	err = n.fail(w, os.ErrClosed)
	delete(n.watchers, w)
	if len(n.watchers) == 0 {
		last, n.notify, n.buf, n.broken = n.notify, nil, nil, nil
	}
	return last, err
}

// subscribe watches a directory for a Watcher, which is told of nothing that happened before.
func (n *Notifier) subscribe(w *Watcher, dir *os.File) (wd int32, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w.failed != nil {
		return 0, w.failed
	}
	if n.count >= maxDirs {
		return 0, ErrTooMany
	}
	err = control(n.notify, func(fd int) error {
		// Another Watcher may have the directory already, and its changes be in the queue.
		if n.drain(fd); w.failed != nil {
			return w.failed
		}
		// The link in /proc leads to the opened directory itself.
		got, err := unix.InotifyAddWatch(fd, fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), interest)
		wd = int32(got)
		return err
	})
	if err != nil {
		return 0, err
	}
	if n.dirs[wd] == nil {
		n.dirs[wd] = map[*Watcher]bool{}
	}
	if !n.dirs[wd][w] {
		n.count++
	}
	n.dirs[wd][w], w.dirs[wd] = true, true
	return wd, nil
}

// unsubscribe ends the watching of a directory for one Watcher.
func (n *Notifier) unsubscribe(w *Watcher, wd int32) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.drop(w, wd)
}

func (n *Notifier) drop(w *Watcher, wd int32) error {
	n.forget(w, wd)
	if who, known := n.dirs[wd]; !known || len(who) > 0 {
		return nil
	}
	delete(n.dirs, wd)
	err := control(n.notify, func(fd int) error { _, err := unix.InotifyRmWatch(fd, uint32(wd)); return err })
	if err != nil && !errors.Is(err, unix.EINVAL) { // which says that it is gone by itself
		return os.NewSyscallError("inotify_rm_watch", err)
	}
	return nil
}

func (n *Notifier) forget(w *Watcher, wd int32) {
	if n.dirs[wd][w] {
		n.count--
	}
	delete(n.dirs[wd], w)
	delete(w.dirs, wd)
}

// run hands records out until the instance is closed.
func (n *Notifier) run(notify *os.File) {
	conn, err := notify.SyscallConn()
	if err == nil {
		err = conn.Read(func(fd uintptr) (ended bool) {
			for more := true; more && !ended; {
				more, ended = n.step(notify, int(fd))
			}
			return ended
		})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notify == notify && err != nil {
		n.broken = err
		n.failAll(err)
	}
}

// step reads once. Others have their turn between two, however fast a sandbox makes changes.
func (n *Notifier) step(notify *os.File, fd int) (more, ended bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notify != notify {
		return false, true
	}
	more, err := n.readOnce(fd)
	return more, err != nil
}

// drain hands out what is in the queue now: a sandbox that goes on to fill it holds up nobody.
func (n *Notifier) drain(fd int) {
	queued, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	for more := true; err == nil && more && queued > 0; queued -= len(n.buf) - maxRecord { // a read gives whole ones
		more, err = n.readOnce(fd)
	}
}

// readOnce reads records and hands them out, and says whether there may be more. Whatever
// fails is an end for all Watchers.
func (n *Notifier) readOnce(fd int) (more bool, err error) {
	size, err := unix.Read(fd, n.buf)
	if err == unix.EAGAIN || err == unix.EINTR {
		return err == unix.EINTR, nil
	}
	if err == nil {
		err = n.dispatch(n.buf[:max(0, size)])
	}
	if err != nil {
		n.broken = os.NewSyscallError("inotify", err)
		n.failAll(n.broken)
	}
	return true, err
}

func (n *Notifier) dispatch(data []byte) error {
	for len(data) > 0 {
		raw, rest, ok := nextRecord(data)
		if !ok {
			return fmt.Errorf("inotify: a record of %d bytes is cut short", len(data))
		}
		data = rest
		if raw.mask&unix.IN_Q_OVERFLOW != 0 {
			n.failAll(ErrLost)
			continue
		}
		for w := range n.dirs[raw.wd] {
			n.give(w, raw)
		}
		if raw.mask&unix.IN_IGNORED != 0 {
			for w := range n.dirs[raw.wd] {
				n.forget(w, raw.wd)
			}
			delete(n.dirs, raw.wd)
		}
	}
	return nil
}

// give has a record wait for a Watcher.
func (n *Notifier) give(w *Watcher, raw record) {
	if n.pending >= maxPending {
		w.failed = errors.Join(ErrLost, n.fail(w, ErrLost))
		return
	}
	n.pending++
	w.pending = append(w.pending, raw)
	w.tell()
}

// fail ends a Watcher with a reason. What waited for it is dropped.
func (n *Notifier) fail(w *Watcher, reason error) (err error) {
	for wd := range w.dirs {
		err = errors.Join(err, n.drop(w, wd))
	}
	n.pending -= len(w.pending)
	w.pending = nil
	if w.failed == nil {
		w.failed = reason
	}
	w.tell()
	return err
}

func (n *Notifier) failAll(reason error) {
	for w := range n.watchers {
		w.failed = errors.Join(reason, n.fail(w, reason))
	}
}

// take gives what waits for a Watcher, or why nothing will.
func (n *Notifier) take(w *Watcher) ([]record, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	records := w.pending
	n.pending -= len(records)
	w.pending = nil
	return records, w.failed
}
