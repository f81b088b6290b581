package checkpoint

import (
	"errors"
	"os"

	"aether/internal/host/confine"
)

// Checkpoint is what the processes of a cell were at one instant. Who checkpoints
// cells that go on keeps the memory of processes in zygotes; what is in files is
// with the Process.
type Checkpoint struct {
	// Processes are all of them, parents before their children.
	Processes []*Process
	// Shared is what they hold together.
	Shared *SharedObjects
}

// Process is one process of a checkpoint.
type Process struct {
	// Parent is the process that started it, if that one is in the cell too, and
	// Children are those that it has started there.
	Parent   *Process
	Children []*Process
	// Orphan: the one that started it had ended, and PID 1 of the cell was its parent.
	// Where it is restored, it is a process from outside, and a session of its own.
	Orphan bool
	// HostPID is the number that it had on the host, by which Place tells process
	// groups and sessions apart.
	HostPID int

	State       *State
	Place       Place
	Descriptors []Descriptor
	Mappings    []SharedMapping

	// Pages has its own pages, one after another, or is nil where a zygote has them.
	Pages *os.File
}

// NSPid is the number of the process in its cell.
func (p *Process) NSPid() int { return p.State.NSPid }

// refuse says that the process is or has something that cannot be carried over.
func (p *Process) refuse(format string, args ...any) error {
	return p.State.refuse(false, format, args...)
}

// nspidOf is the number in the cell of a process of the tree below, or 0.
func (p *Process) nspidOf(hostPID int) int {
	if p.HostPID == hostPID {
		return p.NSPid()
	}
	for _, child := range p.Children {
		if number := child.nspidOf(hostPID); number > 0 {
			return number
		}
	}
	return 0
}

// root is the process of the tree that was started from outside of the cell.
func (p *Process) root() *Process {
	for p.Parent != nil {
		p = p.Parent
	}
	return p
}

// Alone says whether the process had one thread and no children.
func (p *Process) Alone() bool { return len(p.Children) == 0 && p.State.Single() }

// ClosedConnections is how many connections beyond the cell the processes had, which are
// closed where they are restored.
func (c *Checkpoint) ClosedConnections() int {
	counted := map[uint64]bool{}
	for _, p := range c.Processes {
		for _, d := range p.Descriptors {
			if d.Socket != nil && d.Socket.Reset && len(d.Socket.Remote) > 0 {
				counted[d.Inode] = true
			}
		}
	}
	return len(counted)
}

// Close gives back the files that the checkpoint holds.
func (c *Checkpoint) Close() error {
	if c == nil {
		return nil
	}
	errs := []error{c.Shared.Close()}
	for _, p := range c.Processes {
		if p.Pages != nil {
			errs = append(errs, p.Pages.Close())
			p.Pages = nil
		}
	}
	return errors.Join(errs...)
}

// Running is a process of a cell, by its number here. Parent is the place of its
// parent in the list that it is in, or Outside or Orphaned.
type Running struct{ PID, Parent int }

const (
	// Outside is the parent of a process that was started from outside of the cell.
	Outside = -1
	// Orphaned is that of one whose parent has ended.
	Orphaned = -2
)

// ErrOthers is the failure to stop processes of a cell that are not all.
var ErrOthers = errors.New("checkpoint: the cell has other processes")

// othersError says which process has started them.
type othersError struct{ error }

func (e othersError) Unwrap() error      { return e.error }
func (othersError) Is(target error) bool { return target == ErrOthers }

// Stopped are the processes of a cell, all of whose threads are stopped. Everything
// about them must happen on the thread that stopped them.
type Stopped struct {
	list    []Running
	tracees []*Tracee
}

// Stop stops processes, which must be all that run in the cell whose PID 1 is init,
// parents before their children: ErrOthers says that they are not. If it fails they
// go on, and the calling thread must end: a thread of a process may be stuck.
func Stop(list []Running, init int) (s *Stopped, err error) {
	s = &Stopped{list: list}
	for _, r := range list {
		t, err := StopProcess(r.PID)
		if err != nil {
			return nil, errors.Join(err, s.Resume())
		}
		s.tracees = append(s.tracees, t)
	}
	if err := s.checkComplete(init); err != nil {
		return nil, errors.Join(err, s.Resume())
	}
	if err := s.checkApart(); err != nil {
		return nil, errors.Join(err, s.Resume())
	}
	return s, nil
}

// checkComplete makes sure that the stopped processes are all there are: they may
// have made others before they were stopped, and those may be PID 1's by now.
func (s *Stopped) checkComplete(init int) error {
	known := map[int]bool{}
	for _, t := range s.tracees {
		known[t.PID] = true
	}
	for _, t := range s.tracees {
		for _, parent := range []int{t.PID, init} {
			children, err := Children(parent)
			if err != nil {
				return err
			}
			for _, child := range children {
				if !known[child] {
					return othersError{t.refuse(true, "is starting processes")}
				}
			}
		}
	}
	return nil
}

// Resume lets the processes go on exactly as they were.
func (s *Stopped) Resume() error {
	var errs []error
	for _, t := range s.tracees {
		errs = append(errs, t.Resume())
	}
	s.tracees = nil
	return errors.Join(errs...)
}

// Read reads everything that the processes of a cell with these ids are, but their own pages. last is the
// checkpoint of the same processes before, or nil: what cannot have changed since is
// taken from it. writes are the files that the cell has written. Each process is told of, by its place, when it has nothing to do any
// more until it goes on. Whatever could not be carried over is refused.
func (s *Stopped) Read(ids confine.Identity, last *Checkpoint, writes *confine.WriteSource, told func(place int)) (c *Checkpoint, err error) {
	c = &Checkpoint{Shared: NewSharedObjects()}
	if err = s.readInto(c, ids, last, writes, told); err == nil {
		err = c.Shared.Check()
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (s *Stopped) readInto(c *Checkpoint, ids confine.Identity, last *Checkpoint, writes *confine.WriteSource, told func(place int)) error {
	for i, t := range s.tracees {
		p := &Process{HostPID: t.PID, Orphan: s.list[i].Parent == Orphaned}
		if parent := s.list[i].Parent; parent >= 0 {
			p.Parent = c.Processes[parent]
			p.Parent.Children = append(p.Parent.Children, p)
		}
		how := ReadOptions{Filters: confine.Filters, Paths: p.Parent != nil, Writes: writes, Done: func() { told(i) }}
		if last != nil {
			how.Last = last.Processes[i].State
		}
		if err := p.read(t, ids, how, c.Shared); err != nil {
			return err
		}
		c.Processes = append(c.Processes, p)
	}
	return nil
}

func (p *Process) read(t *Tracee, ids confine.Identity, how ReadOptions, shared *SharedObjects) (err error) {
	how.Meanwhile = func() (err error) {
		p.Place, err = t.Place(ids)
		return err
	}
	if p.State, err = t.ReadState(how); err != nil {
		return err
	}
	if p.Mappings, err = p.State.Mappings(shared); err != nil {
		return err
	}
	p.Descriptors, err = t.Descriptors(shared)
	return err
}

// SavePages copies the process's own pages to a file, while it is stopped.
func (p *Process) SavePages() (err error) {
	p.Pages, err = p.State.Save()
	return err
}
