package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"aether/internal/host/confine"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// RestoreSpec is what a process of a checkpoint is given where it is restored.
type RestoreSpec struct {
	Process *Process
	// Files has one file for each of the process's descriptors, in their order. Those
	// that stand for one open file have the same.
	Files []*os.File
	// MappingFiles has one for each mapping that the process shares with others.
	MappingFiles []*os.File
	// LayerFiles has those of the new cell's own layer that the process maps in place
	// of what the walker has there.
	LayerFiles []*os.File
	// Program is what /proc/self/exe is to show, or nil.
	Program *os.File
	// Who is by ids of the cell.
	Who confine.Credentials
	// Terminal is the descriptor of its controlling terminal, or -1, and Foreground the
	// process group that the terminal listens to, or 0.
	Terminal, Foreground int
	// Children are for those of the process, in its order.
	Children []*RestoreSpec

	fds   []int        // what it is sent
	check func() error // whether its memory is there, once the steps are made
}

// Walker is the process that walks the script of a restore, by the time that it is
// in the cell.
type Walker struct {
	Script *spawn.Shared
	// Socket is its descriptor by which processes receive files.
	Socket int
	// Memory is the state whose memory it has, or nil if it has nothing but the
	// script: then memory comes from the processes' Pages. PID is its number then.
	Memory *State
	PID    int
	// Confined says that it is under the cell's rules and filter already.
	Confined bool
	// Prefault is what its memory has not been faulted in for yet, or nil.
	Prefault *WorkingSet
}

// Restore writes the script by which a process of a checkpoint, and those that it
// had started, come to be in a cell. The first process has the walker's memory
// already, shared copy-on-write. Each further one is cloned by its parent, with its
// old number, and takes its memory from a file.
type Restore struct {
	walker Walker
	steps  confine.Steps
	cell   *confine.Cell
	first  *RestoreSpec
}

// NewRestore begins a restore of a process that was started from outside.
func NewRestore(walker Walker, steps confine.Steps, cell *confine.Cell, first *RestoreSpec) (*Restore, error) {
	return &Restore{walker, steps, cell, first}, first.gather()
}

// Write appends everything that the walker does once it is in the cell, and sets
// ready when all processes wait to be given their registers.
func (r *Restore) Write(ready spawn.Word) error {
	p, s := r.first, r.steps
	own := noop
	if r.walker.Memory != nil {
		r.restoreAttributes(p)
	} else {
		own = func() error { return r.restoreMemory(p) }
	}
	s.DropButOne(r.cell, p.Who)
	if !r.walker.Confined {
		s.Rules(r.cell)
	}
	r.takeTerminalEarly(p)
	if err := r.restoreTree(p, own, ready); err != nil {
		return err
	}
	return s.Err()
}

// restoreTree appends the cloning of the process's children, each of which is ready
// before the next is cloned, then own and what the process itself still has to do,
// and then the children's own steps.
func (r *Restore) restoreTree(p *RestoreSpec, own func() error, ready spawn.Word) error {
	s := r.steps
	clones := make([]spawn.Step, len(p.Children))
	words := make([]spawn.Word, len(p.Children))
	for i, child := range p.Children {
		clones[i] = s.Clone(spawn.Clone{Tids: []int{child.Process.NSPid()}, Cgroup: -1, Ended: syscall.SIGCHLD})
		words[i] = s.Word()
		s.WaitAny(words[i])
	}
	if err := errors.Join(own(), r.restoreRest(p, ready)); err != nil {
		return err
	}
	for i, child := range p.Children {
		s.Land(clones[i])
		r.restoreSession(child.Process)
		if err := r.restoreTree(child, func() error { return r.restoreMemory(child) }, words[i]); err != nil {
			return err
		}
	}
	return nil
}

// restoreMemory appends the taking of the process's memory from its Pages, in place
// of that which the process was cloned with.
func (r *Restore) restoreMemory(p *RestoreSpec) (err error) {
	s := r.steps
	s.Receive(r.walker.Socket, 1, receiveFlags)
	if p.check, err = p.Process.State.restorePages(r.walker.Script, r.walker.Memory, r.walker.PID); err != nil {
		return err
	}
	s.Call(unix.SYS_CLOSE_RANGE, firstReceived, lastDescriptor, 0)
	r.restoreAttributes(p)
	return nil
}

func (r *Restore) restoreAttributes(p *RestoreSpec) {
	r.steps.Call(unix.SYS_CHDIR, r.steps.String(p.Process.Place.Dir))
	p.Process.State.RestoreProcess(r.steps.Script)
}

// restoreSession appends the change to the session and process group that the
// process was in.
func (r *Restore) restoreSession(of *Process) {
	s, place := r.steps, of.Place
	switch {
	case place.Session == of.HostPID:
		s.Call(unix.SYS_SETSID)
	case place.Group == of.HostPID:
		s.Call(unix.SYS_SETPGID, 0, 0)
	case place.Group != of.Parent.Place.Group:
		s.Call(unix.SYS_SETPGID, 0, uintptr(of.root().nspidOf(place.Group)))
	}
}

// restoreRest appends what every process does last.
func (r *Restore) restoreRest(p *RestoreSpec, ready spawn.Word) error {
	s, state := r.steps, p.Process.State
	s.Receive(r.walker.Socket, len(p.fds), receiveFlags)
	r.placeDescriptors(p)
	if r.walker.Prefault != nil && p == r.first {
		r.walker.Prefault.Prefault(s.Script, state)
	}
	state.RestoreThreads(s.Script, s.DropLast)
	state.RestoreTimers(s.Script)
	state.RestoreLimits(s.Script) // last: it may have more already than it could take now
	s.DropLast()
	s.Call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, state.Dumpable())
	if !r.walker.Confined {
		if err := s.FilterThreads(); err != nil {
			return err
		}
	}
	s.Signal(ready)
	s.Park()
	return nil
}

// RestoreRegisters gives the processes, the first of which is pid here and all of
// which are ready, the registers and signal masks to go on with. They stand still
// until they are released, which is the caller's to do with all that are given,
// whether or not this fails. It must be called on a thread for tracing.
func (r *Restore) RestoreRegisters(pid int) (all []*Tracee, err error) {
	err = r.restoreRegisters(r.first, pid, &all)
	return all, err
}

func (r *Restore) restoreRegisters(p *RestoreSpec, pid int, all *[]*Tracee) error {
	if len(p.Children) > 0 {
		children, err := Children(pid)
		if err != nil {
			return err
		}
		if len(children) != len(p.Children) {
			return fmt.Errorf("checkpoint: process %d has %d children, not %d", pid, len(children), len(p.Children))
		}
		// They were cloned one after another, and are listed so.
		for i, child := range p.Children {
			if err := r.restoreRegisters(child, children[i], all); err != nil {
				return err
			}
		}
	}
	if p.check != nil {
		if err := p.check(); err != nil {
			return err
		}
	}
	t, err := p.Process.State.RestoreRegisters(pid, r.walker.Script)
	*all = append(*all, t)
	return err
}
