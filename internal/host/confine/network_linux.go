package confine

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A cell of a host that keeps net namespaces has none before it needs one: the first
// process that enters brings one along. PID 1, which never uses any, is in one that it
// shares with the PID 1 of others, and holds the cell's own as a message that it never
// reads, in a socket of which it has both ends. So the namespace ends with the cell, and an
// idle cell costs this program no descriptor for it.

// lease is a cell's hold on a net namespace that was not made by the cell itself, and
// that others may have after it.
type lease struct {
	mu    sync.Mutex
	taken bool        // there is one, here or with PID 1
	here  *os.File    // it, until PID 1 holds it
	park  *time.Timer // gives it to PID 1
	held  *os.File    // it, since the cell is to end
	used  bool        // somebody but the cell's own processes was let into it
	ended bool        // the cell has: whoever is still on the way into it gets no other
}

// parkAfter is how long this program holds a net namespace before PID 1 does: many cells have
// ended by then, and right after it has begun PID 1 gives nothing away for a while.
const parkAfter = 100 * time.Millisecond

// leased says that the cell's net namespace is one of the host's, and belongs to the user
// namespace of this program.
func (c *Cell) leased() bool { return c.host.networks != nil && !c.config.HostNetwork }

// SharesInit says that cells have a net namespace when they need one, and not before: PID 1,
// which has no use of any, is in one with those of other cells.
func (h *Host) SharesInit() bool { return h.networks != nil }

// OwnsNetwork says that the cell's net namespace belongs to the cell's user namespace, and
// is that of PID 1.
func (c *Cell) OwnsNetwork() bool { return !c.leased() }

// OwnsNetwork is that of the cell which it will be.
func (b *WarmCell) OwnsNetwork() bool { return b.cell.OwnsNetwork() }

// WithNetwork runs fn with a descriptor for whoever makes something in the cell's net
// namespace, which no other cell gets then: of PID 1, if the cell owns it, else of the
// namespace.
func (c *Cell) WithNetwork(fn func(fd int) error) error {
	if c.OwnsNetwork() {
		return c.init.Near(firstFd, fn)
	}
	c.lease.mu.Lock()
	c.lease.used = true
	c.lease.mu.Unlock()
	return c.withLease(fn)
}

// WithNetwork is that of the cell which it will be.
func (b *WarmCell) WithNetwork(fn func(fd int) error) error { return b.cell.WithNetwork(fn) }

// withLease runs fn with the cell's net namespace, by a descriptor that scripts can name, or
// with -1 where processes join it with the other namespaces of PID 1.
func (c *Cell) withLease(fn func(fd int) error) (err error) {
	if !c.leased() {
		return fn(-1)
	}
	fd, err := c.openLease()
	if err == nil {
		fd, err = raise(fd)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	return fn(fd)
}

// openLease opens the cell's net namespace, which it is given if it has none.
func (c *Cell) openLease() (fd int, err error) {
	c.lease.mu.Lock()
	defer c.lease.mu.Unlock()
	if c.lease.ended || c.lease.held != nil {
		return -1, unix.ESRCH // the cell has ended, or is to
	}
	if !c.lease.taken {
		return c.takeLease()
	}
	return c.look(unix.MSG_PEEK)
}

// takeLease gives the cell a net namespace. The lock is held.
func (c *Cell) takeLease() (fd int, err error) {
	file, err := c.host.networks.Take()
	if err != nil {
		return -1, err
	}
	if fd, err = near(file); err != nil {
		return -1, errors.Join(err, file.Close())
	}
	c.lease.taken, c.lease.here = true, file
	c.lease.park = time.AfterFunc(parkAfter, c.parkLease)
	return fd, nil
}

// parkLease has PID 1 hold the net namespace. Where this program may take nothing from PID 1,
// which is how it would get it back, it holds it itself.
func (c *Cell) parkLease() {
	c.lease.mu.Lock()
	defer c.lease.mu.Unlock()
	here := c.lease.here
	if here == nil || c.lease.held != nil {
		return
	}
	fd, err := near(here)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if c.park(fd) == nil {
		c.letHere()
	}
}

// letHere closes what this program holds of the net namespace. The lock is held.
func (c *Cell) letHere() {
	if c.lease.here != nil {
		c.lease.park.Stop()
		c.lease.here.Close()
		c.lease.here = nil
	}
}

// near gives a copy of a file's descriptor that scripts can name.
func near(file *os.File) (fd int, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return -1, err
	}
	used := raw.Control(func(f uintptr) { fd, err = unix.FcntlInt(f, unix.F_DUPFD_CLOEXEC, firstFd) })
	return fd, errors.Join(used, os.NewSyscallError("fcntl", err))
}

// park has PID 1 hold a descriptor. Errors: EPERM where this program may take nothing of its.
func (c *Cell) park(fd int) error {
	return c.withHeld(otherFd, func(socket int) error {
		return os.NewSyscallError("sendmsg", unix.Sendmsg(socket, []byte{0}, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT))
	})
}

// look gives the descriptor that PID 1 holds, which it goes on holding with MSG_PEEK alone.
// The lock is held.
func (c *Cell) look(flags int) (fd int, err error) {
	if here := c.lease.here; here != nil {
		return near(here)
	}
	err = c.withHeld(shownFd, func(socket int) (err error) {
		fd, err = receiveOne(socket, flags)
		return err
	})
	return fd, err
}

// receiveOne takes the descriptor of one message.
func receiveOne(socket, flags int) (int, error) {
	var data [1]byte
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, data[:], control, flags|unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return -1, os.NewSyscallError("recvmsg", err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return -1, errors.Join(errors.New("a message without a descriptor"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.Join(errors.New("a message without a descriptor"), err)
	}
	return fds[0], nil
}

// withHeld runs fn with a copy of a descriptor of PID 1. A cell that has ended is ESRCH.
func (c *Cell) withHeld(number int, fn func(fd int) error) error {
	if c.host.without[partHold] {
		return unix.EPERM
	}
	var err error
	gone := c.init.Fd(func(pidfd int) {
		var fd int
		fd, err = unix.PidfdGetfd(pidfd, number, 0)
		switch err {
		case nil:
			err = errors.Join(fn(fd), unix.Close(fd))
		case unix.EBADF: // of a process that has ended
			err = unix.ESRCH
		default:
			err = os.NewSyscallError("pidfd_getfd", err)
		}
	})
	return errors.Join(gone, err)
}

// Vacate gives the cell's net namespace back, and ends who stands by for its first command.
// It is for a cell in which nothing has run yet; the first command brings another along.
func (c *Cell) Vacate() error {
	err := c.dismiss()
	if err != nil || !c.leased() {
		return err
	}
	c.lease.mu.Lock()
	defer c.lease.mu.Unlock()
	if !c.lease.taken || c.lease.used || c.lease.held != nil {
		return nil
	}
	return c.letLease()
}

// letLease takes the net namespace from PID 1. The lock is held.
func (c *Cell) letLease() error {
	fd, err := c.look(0)
	if err != nil {
		return fmt.Errorf("confine: take the net namespace back: %w", err)
	}
	c.lease.taken = false
	c.letHere()
	file, err := c.host.networks.Hold(func() (int, error) { return fd, nil })
	if file == nil {
		return errors.Join(err, unix.Close(fd))
	}
	c.host.networks.Retire(file)
	return nil
}

// holdNetwork keeps the net namespace beyond the end of PID 1, if another cell may have it.
func (c *Cell) holdNetwork() {
	c.lease.mu.Lock()
	defer c.lease.mu.Unlock()
	if !c.lease.taken || c.lease.used || c.lease.held != nil {
		return
	}
	file, err := c.host.networks.Hold(func() (int, error) { return c.look(unix.MSG_PEEK) })
	if err == nil { // else it has ended by itself; nil is that enough are kept
		c.lease.held = file
	}
}

// retireNetwork lets go of the net namespace. Another cell may have it if nothing is left
// of this one.
func (c *Cell) retireNetwork(ended bool) {
	c.lease.mu.Lock()
	defer c.lease.mu.Unlock()
	c.lease.ended = true
	c.letHere()
	switch file := c.lease.held; {
	case file == nil:
	case ended && !c.lease.used:
		c.host.networks.Retire(file)
	default:
		c.host.networks.Release(file)
	}
	c.lease.held = nil
}

// inNetwork runs fn on this thread, in the net namespace that PID 1 is to have.
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
