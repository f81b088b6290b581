package subreaper

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Children are all children of this process.
type Children struct {
	mu   sync.Mutex
	own  map[int]*Child
	stop func()
}

// Child is one that was started here.
type Child struct {
	of     *Children
	pid    int
	ended  chan struct{}
	status syscall.WaitStatus
}

// Adopt begins to await all children, until Close. Orphans come to this process
// also where it is not the very first one.
func Adopt() (*Children, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	c := &Children{own: map[int]*Child{}}
	news, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(news, syscall.SIGCHLD)
	c.stop = sync.OnceFunc(func() {
		signal.Stop(news)
		close(done)
	})
	go func() {
		for {
			c.reap()
			select {
			case <-news:
			case <-done:
				return
			}
		}
	}()
	return c, nil
}

// Close leaves the children alone from now on.
func (c *Children) Close() { c.stop() }

// reap takes the status of every child that has ended. It excludes Start, so
// that one cannot end before it is known here.
func (c *Children) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return // ECHILD, or nobody has ended
		}
		if child := c.own[pid]; child != nil {
			child.status = status
			delete(c.own, pid)
			close(child.ended)
		}
	}
}

// Start starts a child by calling start, which answers its id.
func (c *Children) Start(start func() (pid int, err error)) (*Child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := start()
	if err != nil {
		return nil, err
	}
	child := &Child{of: c, pid: pid, ended: make(chan struct{})}
	c.own[pid] = child
	return child, nil
}

// ForkExec is os.StartProcess for a child that package os is not to wait for.
func ForkExec(path string, args []string, attr *os.ProcAttr) (pid int, err error) {
	raw := &syscall.ProcAttr{Dir: attr.Dir, Env: attr.Env, Sys: attr.Sys}
	for _, f := range attr.Files {
		raw.Files = append(raw.Files, f.Fd())
	}
	return syscall.ForkExec(path, args, raw)
}

// Pid is the child's id.
func (c *Child) Pid() int { return c.pid }

// Wait waits for the child's end.
func (c *Child) Wait() syscall.WaitStatus {
	<-c.ended
	return c.status
}

// Signal sends a signal, never to another process that got the same id later.
// Errors: ESRCH once the child has ended.
func (c *Child) Signal(sig syscall.Signal) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.own[c.pid] != c {
		return syscall.ESRCH
	}
	return syscall.Kill(c.pid, sig)
}
