package spawn

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Exits tells of the ends of many processes. A goroutine that waited for each would
// hold a stack for as long as the process lives, which is more memory than all else
// that a program keeps of an idle child.
type Exits struct {
	epoll *os.File

	mu    sync.Mutex
	last  int32
	calls map[int32]func() // by what epoll says of the process; nil when closed
}

// WatchExits makes one. Close must follow.
func WatchExits() (*Exits, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	fd = Aside(fd)
	if err := unix.SetNonblock(fd, true); err != nil { // or Go's poller does not take it
		return nil, errors.Join(os.NewSyscallError("fcntl", err), unix.Close(fd))
	}
	e := &Exits{epoll: os.NewFile(uintptr(fd), "epoll"), calls: map[int32]func(){}}
	go e.run()
	return e, nil
}

// Call has fn called once, in a goroutine of its own, when the process has ended; it
// is fn that waits for it, and reaps it. Where the end cannot be watched, fn is called
// at once: then it waits longer.
func (e *Exits) Call(p *Process, fn func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.calls == nil {
		go fn()
		return
	}
	e.last++
	for e.calls[e.last] != nil {
		e.last++ // it has been all around
	}
	e.calls[e.last] = fn
	if err := e.add(p, e.last); err != nil {
		delete(e.calls, e.last)
		go fn()
	}
}

func (e *Exits) add(p *Process, key int32) error {
	raw, err := e.epoll.SyscallConn()
	if err != nil {
		return err
	}
	var added error
	gone := p.Fd(func(pidfd int) {
		err = raw.Control(func(epoll uintptr) {
			event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: key}
			added = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_ADD, pidfd, &event)
		})
	})
	return errors.Join(gone, err, added)
}

// run calls those whose processes have ended, until Close.
func (e *Exits) run() {
	raw, err := e.epoll.SyscallConn()
	events := make([]unix.EpollEvent, 64)
	for err == nil {
		var n int
		var failed error
		if err = raw.Read(func(epoll uintptr) bool {
			n, failed = unix.EpollWait(int(epoll), events, 0)
			return n > 0 || failed != nil && failed != unix.EINTR
		}); err == nil {
			err = failed
		}
		for _, event := range events[:max(n, 0)] {
			e.call(event.Fd)
		}
	}
	e.stop()
}

func (e *Exits) call(key int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if fn := e.calls[key]; fn != nil {
		delete(e.calls, key)
		go fn()
	}
}

// stop has everybody who is left wait by themselves.
func (e *Exits) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, fn := range e.calls {
		go fn()
	}
	e.calls = nil
}

// Close watches no more. Those whose processes live are called at once.
func (e *Exits) Close() error {
	e.stop()
	return e.epoll.Close()
}
