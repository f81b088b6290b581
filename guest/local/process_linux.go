package local

import (
	"errors"
	"os"
	"syscall"

	"aether/guest"
	"aether/internal/host/proctree"
	"aether/internal/host/pty"
)

type process struct {
	child
	backend *Backend
	tree    *tree // nil if the whole of it need not be found
	killed  int64 // out-of-memory kills when it started
}

// Kill ends the tree, or for a process without one its session's own group.
func (p *process) Kill() error {
	if p.tree != nil {
		return p.tree.kill(p.Pid())
	}
	err := proctree.KillGroup(p.Pid())
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Resized implements guest.Resized. A process is started in a session of its own.
func (p *process) Resized() error { return pty.Tell(p.Pid()) }

func (p *process) Wait() (guest.Status, error) {
	ws, err := p.child.Wait()
	if err := errors.Join(err, p.tree.release()); err != nil {
		return guest.Status{}, err
	}
	if !ws.Signaled() {
		return guest.Status{Code: ws.ExitStatus()}, nil
	}
	status := guest.Status{Signal: ws.Signal()}
	if status.Signal == syscall.SIGKILL {
		killed, err := p.backend.oomKills()
		status.OutOfMemory = err == nil && killed > p.killed
	}
	return status, nil
}
