package spawn

import (
	"errors"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Thread is an operating system thread that runs functions one after another
// and lives as long as the program. Children are cloned on such threads because
// a parent-death signal follows the thread that cloned, and because a thread can
// stand in namespaces of its own for its children to inherit.
type Thread struct {
	work   chan func()
	closed chan struct{}
}

var errThreadClosed = errors.New("spawn: the thread is closed")

// NewThread starts a thread; setup runs on it first.
func NewThread(setup func() error) (*Thread, error) {
	t := &Thread{work: make(chan func()), closed: make(chan struct{})}
	ready := make(chan error)
	go t.run(setup, ready)
	if err := <-ready; err != nil {
		return nil, err
	}
	return t, nil
}

// Lasting is the thread for children that get a parent-death signal and are to get it with
// the end of this program only. Any other may end: what was started on one that Go then
// gives to a Thread is killed when that is closed.
var Lasting = sync.OnceValues(func() (*Thread, error) { return NewThread(func() error { return nil }) })

// run never unlocks: a thread whose namespaces were changed must not go back to
// Go's scheduler, which would run other goroutines in them.
func (t *Thread) run(setup func() error, ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// What /proc/self shows is the first thread's: that one stays where it is.
		// It is held until another thread is found.
		elsewhere := make(chan error)
		go t.run(setup, elsewhere)
		err := <-elsewhere
		runtime.UnlockOSThread()
		ready <- err
		return
	}
	err := setup()
	ready <- err
	if err != nil {
		return
	}
	for {
		select {
		case fn := <-t.work:
			fn()
		case <-t.closed:
			return
		}
	}
}

// Do runs fn on the thread and waits for it.
func (t *Thread) Do(fn func() error) error {
	err := errors.New("spawn: the thread's function ended its goroutine")
	done := make(chan struct{})
	job := func() {
		defer close(done)
		err = fn()
	}
	select {
	case t.work <- job:
		<-done
		return err
	case <-t.closed:
		return errThreadClosed
	}
}

// Close ends the thread. Children that asked for a parent-death signal get it.
func (t *Thread) Close() { close(t.closed) }
