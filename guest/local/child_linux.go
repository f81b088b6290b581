package local

import (
	"errors"
	"os"
	"syscall"

	"aether/internal/host/subreaper"
)

// child is a process that was started, however it is awaited.
type child interface {
	Pid() int
	// Signal gives ESRCH once the child has been awaited.
	Signal(syscall.Signal) error
	Wait() (syscall.WaitStatus, error)
}

// launch starts a program. As the first process of a sandbox it leaves waiting
// to one place, which also has orphans to wait for.
func (b *Backend) launch(path string, args []string, attr *os.ProcAttr) (child, error) {
	if b.children == nil {
		p, err := os.StartProcess(path, args, attr)
		return osChild{p}, err
	}
	c, err := b.children.Start(func() (int, error) {
		return b.expendable(func() (int, error) { return subreaper.ForkExec(path, args, attr) })
	})
	if err != nil {
		return nil, &os.PathError{Op: "fork/exec", Path: path, Err: err}
	}
	return adopted{c}, nil
}

// osChild is awaited by package os.
type osChild struct{ *os.Process }

func (c osChild) Pid() int { return c.Process.Pid }

func (c osChild) Signal(sig syscall.Signal) error {
	err := c.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return syscall.ESRCH
	}
	return err
}

func (c osChild) Wait() (syscall.WaitStatus, error) {
	state, err := c.Process.Wait()
	if err != nil {
		return 0, err
	}
	return state.Sys().(syscall.WaitStatus), nil
}

// adopted is awaited with all other children of this process.
type adopted struct{ *subreaper.Child }

func (c adopted) Wait() (syscall.WaitStatus, error) { return c.Child.Wait(), nil }
