package local

import (
	"errors"
	"os"
	"syscall"

	"aether/guest"
)

type process struct {
	*os.Process
	tree *tree // nil if the whole of it need not be found
}

func (p *process) Pid() int { return p.Process.Pid }

func (p *process) Signal(sig syscall.Signal) error {
	err := p.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return syscall.ESRCH
	}
	return err
}

// Kill ends the tree, or for a process without one its session's own group.
func (p *process) Kill() error {
	if p.tree != nil {
		return p.tree.kill(p.Process.Pid)
	}
	err := syscall.Kill(-p.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

func (p *process) Wait() (guest.Status, error) {
	state, err := p.Process.Wait()
	if err != nil {
		return guest.Status{}, errors.Join(err, p.tree.release())
	}
	ws := state.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return guest.Status{Signal: ws.Signal()}, p.tree.release()
	}
	return guest.Status{Code: ws.ExitStatus()}, p.tree.release()
}
