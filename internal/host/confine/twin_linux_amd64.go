package confine

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"aether/internal/host/checkpoint"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// Twin is a process outside of all cells that holds the memory of one process of
// a cell, as it was when it was taken. Children of the twin are born in other
// cells and go on as that process: their pages are the twin's until they write.
//
// A process cannot be forked into another pid namespace than one within its own,
// so no child of the process itself could be in a cell beside it. The twin can
// have such children, for it is outside. It never runs anything but scripts of
// this program's.
type Twin struct {
	// Descriptors and Place are what the process had besides memory, and where
	// it was.
	Descriptors []checkpoint.Descriptor
	Mappings    []checkpoint.SharedMapping // memory that it shares
	Place       checkpoint.Place

	// Parent is the twin of the process's parent, if that is in the cell, and
	// Children are those of its children there. A process with a parent has no
	// twin of its own to be born from: in another cell the copy of its parent
	// makes it, and its memory, which was saved, is copied to it.
	Parent   *Twin
	Children []*Twin
	saved    *os.File

	// recalled says that the process was kept on disk: then the twin has nothing
	// of it, and those that are born from it take on memory that was saved.
	recalled bool

	host    *Host
	of      int // the process, as numbered here
	paused  *checkpoint.Tracee
	state   *checkpoint.State
	tracker *checkpoint.Tracker // nil where the kernel has none: then all is copied each time
	script  *spawn.Shared
	process *spawn.Process
	ended   chan struct{} // closed when nobody uses the script for the process's end any more
	socket  *os.File      // for descriptors, to the twin's standard input
	keeper  *spawn.Thread

	age      int                   // how often it has become what the process was
	habits   checkpoint.WorkingSet // of its children
	children int                   // how many it has had
	spare    *spare                // who is the next one, or has it; or nil
	delta    *checkpoint.Delta     // what it has still to change
	leaving  *spawn.Process        // a spare that has ended, or nil

	mu sync.Mutex // one child at a time is made
	// born and child are the one that waits to proceed.
	born  *birth
	child *spawn.Process
	// broken says that the twin can have no more children.
	broken bool
}

const (
	twinSteps = 1 << 16
	twinArena = 8 << 20
	// twinRoom is more than enough of addresses for a script.
	twinRoom = 2 * (twinSteps*80 + twinArena)
	// scriptFd is where a twin has the script's memory.
	scriptFd = 1
	// passFd is where it takes descriptors from.
	passFd = 0
)

// newTwin starts a process that can become the twin of another, which may be
// running.
func (h *Host) newTwin(of int, keeper *spawn.Thread) (t *Twin, err error) {
	at, err := checkpoint.FreeAddress(of, twinRoom)
	if err != nil {
		return nil, err
	}
	return h.newTwinAt(of, at, 1, keeper)
}

// newTwinAt starts one whose script is at an address, and so many times as large.
func (h *Host) newTwinAt(of int, at uint64, large int, keeper *spawn.Thread) (t *Twin, err error) {
	t = &Twin{host: h, of: of, keeper: keeper}
	if t.script, err = spawn.NewShared(large*twinSteps, large*twinArena, uintptr(at)); err != nil {
		return nil, err
	}
	if err := t.start(); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// start starts the process that will be the twin, and has it wait for scripts.
func (t *Twin) start() error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	t.socket = ours
	clay, err := spawn.Clay()
	if err != nil {
		return err
	}
	s, err := t.host.script(0)
	if err != nil {
		return err
	}
	s.initFiles(t.host)
	s.Call(unix.SYS_DUP3, theirs.Fd(), passFd, 0)
	s.Call(unix.SYS_DUP3, t.script.File().Fd(), scriptFd, 0)
	s.Call(unix.SYS_DUP3, clay.Fd(), initFd, unix.O_CLOEXEC)
	s.executeInit()
	var started spawn.Started
	// Not on a thread that stands on a stage: the twin opens files by /proc. It
	// dies with the keeper.
	err = t.keeper.Do(func() (err error) {
		started, err = s.Start(0, -1)
		return err
	})
	if err != nil {
		return errors.Join(err, s.Free())
	}
	if t.process, err = started.Await(); err != nil {
		return errors.Join(err, started.Done())
	}
	t.ended = make(chan struct{})
	go func() {
		defer close(t.ended)
		t.process.Wait() //nolint:errcheck // that it ended is all there is to know
		t.script.Ended()
	}()
	return errors.Join(started.Done(), t.keeper.Do(func() error { return checkpoint.StartScript(t.process.Pid(), scriptFd, t.script) }))
}

// cellFilters is how many system call filters a process of a cell is under.
const cellFilters = 1

// look reads what the process is made of, while it is paused.
func (t *Twin) look(kept *checkpoint.SharedObjects) (state *checkpoint.State, err error) {
	place := func() (err error) {
		t.Place, err = t.paused.Place()
		return err
	}
	if state, err = t.paused.ReadState(checkpoint.ReadOptions{Filters: cellFilters, Last: t.state, Paths: t.Parent != nil, Meanwhile: place, Done: t.come}); err != nil {
		return nil, err
	}
	if t.Mappings, err = state.Mappings(kept); err != nil {
		return nil, err
	}
	t.Descriptors, err = t.paused.Descriptors(kept)
	return state, err
}

// become takes on the memory of the process, while it is paused, or takes note of
// what has to be changed for it.
func (t *Twin) become(state *checkpoint.State) (err error) {
	t.mu.Lock() // nobody learns meanwhile
	defer t.mu.Unlock()
	if err := t.keepUp(); err != nil {
		return err
	}
	if t.delta, err = t.changes(state); err != nil {
		return err
	}
	check := func() error { return nil }
	if t.delta == nil {
		if check, err = t.becomeWhole(state); err != nil {
			return err
		}
	}
	t.track(state)
	t.state = state
	t.age++
	return check()
}

// changes is what a twin that has been the process before has to change, if that
// is little.
func (t *Twin) changes(state *checkpoint.State) (*checkpoint.Delta, error) {
	if t.tracker == nil {
		return nil, nil
	}
	return state.Delta(t.state)
}

// becomeWhole has the twin do what there is to do. A spare cannot follow.
func (t *Twin) becomeWhole(state *checkpoint.State) (check func() error, err error) {
	if err := t.dropSpare(); err != nil {
		return nil, err
	}
	t.script.Rewind()
	if check, err = state.RestoreMemory(t.script, t.process.Pid(), t.state); err != nil {
		return nil, err
	}
	t.script.Return()
	return check, t.run()
}

// catchUp changes what was noted, in the spare if there is one: the twin itself has
// time until it is needed. The process has gone on.
func (t *Twin) catchUp() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.delta == nil || t.spare == nil {
		return t.keepUp()
	}
	err := t.arrived()
	if err == nil {
		err = t.delta.Apply(t.spare.process.Pid())
	}
	t.broken = t.broken || err != nil
	return err
}

// keepUp changes what was noted in the twin.
func (t *Twin) keepUp() error {
	if t.delta == nil {
		return nil
	}
	err := t.delta.Apply(t.process.Pid())
	t.delta = nil
	t.broken = t.broken || err != nil
	return err
}

// track begins to notice what is written from now on. A kernel that cannot, or
// does not let us, costs time only.
func (t *Twin) track(state *checkpoint.State) {
	var err error
	if t.state == nil {
		t.tracker, err = state.Track()
	}
	if err == nil && t.tracker != nil {
		err = t.tracker.Watch(state)
	}
	if err != nil {
		t.tracker.Close()
		t.tracker = nil
	}
}

// save keeps the memory of a process that has a parent in the cell.
func (t *Twin) save(state *checkpoint.State) (err error) {
	t.state = state
	if t.saved != nil {
		t.saved.Close()
	}
	t.saved, err = state.Save()
	return err
}

func (t *Twin) newScript() script { return script{t.script.Script, &plan{without: t.host.without}} }

// run has the twin walk the script that was written.
func (t *Twin) run() error {
	if err := t.keepUp(); err != nil {
		return err
	}
	t.spoil()
	return t.script.Run()
}

// summon has the spare walk it.
func (t *Twin) summon() {
	t.spoil()
	t.script.Summon()
}

func (t *Twin) spoil() {
	if t.host.spoil != nil {
		t.host.spoil(t.script)
	}
}

// close ends the twin. Its children go on.
func (t *Twin) close() error {
	if t.Parent != nil {
		if t.saved == nil {
			return nil
		}
		return t.saved.Close()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = true
	errs := []error{t.dropSpare()}
	if t.process != nil {
		if err := t.process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, err)
		}
		_, err := t.process.Wait()
		errs = append(errs, err)
		<-t.ended
	}
	if t.socket != nil {
		errs = append(errs, t.socket.Close())
	}
	if t.saved != nil {
		errs = append(errs, t.saved.Close())
	}
	errs = append(errs, t.tracker.Close())
	return errors.Join(append(errs, t.script.Close())...)
}

// usable says whether the twin can have more children, once nobody uses it: that
// is not to be waited for while processes are stopped.
func (t *Twin) usable() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.broken
}

// Refuse says that the process is or has something that cannot be carried over.
func (t *Twin) Refuse(what string) error { return t.state.Refuse(what) }

// Tid is the number of the process in its cell.
func (t *Twin) Tid() int { return t.state.Tid() }
