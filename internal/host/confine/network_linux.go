package confine

import (
	"fmt"
	"os"
	"sync"

	"aether/internal/host/spawn"
)

// lease is a cell's hold on a net namespace that was not made by the cell itself, and
// that others may have after it.
type lease struct {
	mu   sync.Mutex
	file *os.File // the namespace, since the cell is to end
	used bool     // somebody but the cell's own processes was let into it
}

// leased says that the cell's net namespace is one of the host's, and belongs to the user
// namespace of this program.
func (c *Cell) leased() bool { return c.host.networks != nil && !c.config.HostNetwork }

// OwnsNetwork says that the cell's net namespace belongs to the cell's user namespace.
func (c *Cell) OwnsNetwork() bool { return !c.leased() }

// OwnsNetwork is that of the cell which it will be.
func (b *WarmCell) OwnsNetwork() bool { return b.cell.OwnsNetwork() }

// WithInit runs fn with the descriptor of the cell's first process, for whoever makes
// something in its net namespace, which no other cell gets then.
func (c *Cell) WithInit(fn func(pidfd int) error) error {
	c.lease.mu.Lock()
	c.lease.used = true
	c.lease.mu.Unlock()
	return c.init.Near(firstFd, fn)
}

// WithInit is that of the cell which it will be.
func (b *WarmCell) WithInit(fn func(pidfd int) error) error { return b.cell.WithInit(fn) }

// holdNetwork keeps the net namespace beyond the end of PID 1, if another cell may have it.
func (c *Cell) holdNetwork() {
	c.lease.mu.Lock()
	defer c.lease.mu.Unlock()
	if !c.leased() || c.lease.used || c.lease.file != nil {
		return
	}
	file, err := c.host.networks.Hold(func() (int, error) { return c.init.Namespace(spawn.NetNamespace) })
	if err == nil { // else it has ended by itself; nil is that enough are kept
		c.lease.file = file
	}
}

// retireNetwork lets go of the net namespace. Another cell may have it if nothing is left
// of this one.
func (c *Cell) retireNetwork(ended bool) {
	c.lease.mu.Lock()
	defer c.lease.mu.Unlock()
	switch file := c.lease.file; {
	case file == nil:
	case ended && !c.lease.used:
		c.host.networks.Retire(file)
	default:
		c.host.networks.Release(file)
	}
	c.lease.file = nil
}

// inNetwork runs fn on this thread, in the net namespace that a child of it is to have.
func (t *spawner) inNetwork(c *Cell, fn func() error) error {
	return t.abroad(func() (err, away error) {
		if c.leased() {
			return c.host.networks.Do(fn)
		}
		return fn(), nil
	})
}

// visitNetwork is a netpool.Visitor.
func (h *Host) visitNetwork(fn func() (err, away error)) error {
	return h.on(func(t *spawner) error { return t.abroad(fn) })
}

// abroad runs fn, which may leave this program's net namespace. A thread that has not come
// home starts nothing more; what it has started by then is where it should be.
func (t *spawner) abroad(fn func() (err, away error)) (err error) {
	if t.away == nil {
		err, t.away = fn()
		return err
	}
	return fmt.Errorf("confine: a thread is in another net namespace: %w", t.away)
}
