package confine

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"aether/internal/host/idrange"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// spawner is a thread that clones, and the stage that it stands on. It is started when it is
// first needed: a program that makes one cell needs one.
type spawner struct {
	mu     sync.Mutex
	thread *spawn.Thread // nil before it is started
	closed bool

	base  *Base
	named bool  // it can act in the name of another and keep its rights
	away  error // why it has not come home from a net namespace
}

// do runs fn on the thread.
func (t *spawner) do(root bool, fn func() error) error {
	thread, err := t.started(root)
	if err != nil {
		return err
	}
	return thread.Do(fn)
}

// started is the thread, for cells of root's or of an ordinary user.
func (t *spawner) started(root bool) (*spawn.Thread, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errors.New("confine: the host is closed")
	}
	if t.thread == nil {
		thread, err := spawn.NewThread(func() error { return t.prepare(root) })
		if err != nil {
			return nil, fmt.Errorf("confine: start a thread: %w", err)
		}
		t.thread = thread
	}
	return t.thread, nil
}

// close ends the thread, or keeps it from being started.
func (t *spawner) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.thread != nil {
		t.thread.Close()
	}
}

// prepare makes the thread ready to stand on stages and, for root, to act in the name
// of cells. A root who lacks what that takes goes without.
func (t *spawner) prepare(root bool) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	t.named = root && idrange.KeepRights()
	return nil
}

// stand puts the thread on the base's stage, for its next child to inherit.
func (t *spawner) stand(b *Base) error {
	if t.base == b {
		return nil
	}
	if err := unix.Setns(int(b.mount.Fd()), unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("setns", err)
	}
	t.base = b
	return nil
}

// inNameOf runs fn with another effective user id. The kernel counts what is in a user
// namespace for the user who made it, too: that is to be one of the cell's own, and not
// the host's root, whom all cells and the host's own services would share it with.
func (t *spawner) inNameOf(id int, fn func() error) error {
	if !t.named {
		return fn()
	}
	return idrange.InNameOf(id, fn)
}

// clone starts PID 1 by one of the threads, and gives with it the file system of the
// cell's own files, as a mount, or -1 where the cell makes that itself.
func (c *Cell) clone(s script, flags uint64, group int) (started spawn.Started, files int, err error) {
	files = -1
	start := func() (err error) {
		started, err = s.Start(flags, group)
		return err
	}
	err = c.host.on(func(t *spawner) (err error) {
		if c.identity.Single {
			return start()
		}
		if err := t.stand(c.base); err != nil {
			return err
		}
		if files, err = c.ownFiles(); err != nil {
			return err
		}
		return t.inNetwork(c, func() error {
			if c.host.without[partRange] {
				return start()
			}
			return t.inNameOf(c.identity.owner(), start)
		})
	})
	if err != nil && files >= 0 {
		err = errors.Join(err, unix.Close(files))
	}
	return started, files, err
}
