package netdev

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// visitor is a thread that goes to net namespaces and comes back. It never ends: children
// of this program may be killed with the thread that started them, whichever it was.
type visitor struct {
	thread *spawn.Thread
	home   *os.File
	lost   error // it has not come back
}

var visiting = sync.OnceValues(func() (*visitor, error) {
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	thread, err := spawn.NewThread(func() error { return nil })
	return &visitor{thread: thread, home: home}, err
})

// visit runs fn between leaving and coming home.
func visit(leave, fn func() error) error {
	v, err := visiting()
	if err != nil {
		return fmt.Errorf("netdev: %w", err)
	}
	return v.thread.Do(func() (err error) {
		if v.lost != nil {
			return v.lost
		}
		if err := leave(); err != nil {
			return fmt.Errorf("netdev: %w", err)
		}
		defer func() {
			if back := unix.Setns(int(v.home.Fd()), unix.CLONE_NEWNET); back != nil {
				v.lost = fmt.Errorf("netdev: %w", os.NewSyscallError("setns", back))
				err = errors.Join(err, v.lost)
			}
		}()
		return fn()
	})
}

// Do runs fn in the net namespace, and in the user namespace of this program. Sockets that
// it makes belong there, and keep the namespace. Only one such runs at a time.
func (n *Namespace) Do(fn func() error) error {
	return visit(func() error { return os.NewSyscallError("setns", unix.Setns(n.Fd(), unix.CLONE_NEWNET)) }, fn)
}

// NewNamespace makes a net namespace that is gone when it is closed and nothing else holds
// it.
func NewNamespace() (n *Namespace, err error) {
	err = visit(func() error { return os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_NEWNET)) }, func() (err error) {
		n, err = OpenNamespace("/proc/thread-self/ns/net")
		return err
	})
	return n, err
}
