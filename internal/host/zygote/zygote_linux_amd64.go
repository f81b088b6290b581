package zygote

import (
	"errors"
	"sync"

	"aether/internal/host/checkpoint"
	"aether/internal/host/confine"
	"aether/internal/host/spawn"
)

// Zygote is a process outside of all cells that holds the memory of one process of a
// cell, as it was at the last checkpoint. Its forks have the same pages until one of
// them writes.
type Zygote struct {
	*runner
	place  int // of its process in the checkpoint
	memory memory

	// mu is held by whoever uses the zygote; see lock.
	mu    sync.Mutex
	phase phase
	// making is closed when the warm fork that is being made in the background is
	// there, or has failed; nil while none is being made.
	making chan struct{}
	// warm is a fork that is kept ready for the next cell, or nil, and exited the
	// process that a warm fork was before it joined its cell, until it is reaped.
	warm   *warmFork
	exited *spawn.Process
	forks  int // how many it has had
	// restoring is the fork that waits for its registers, or nil.
	restoring *restoring
}

// memory is what a zygote has of its process.
type memory struct {
	state   *checkpoint.State   // whose memory it is
	tracker *checkpoint.Tracker // nil where the kernel has none: then all is copied each time
	delta   *checkpoint.Delta   // what the zygote has still to write, while it is behind
	// generation counts checkpoints, to tell the forks of one from those of the next.
	generation int
	// working is what forks have used of it.
	working checkpoint.WorkingSet
}

// restoring is a fork that is in its cell and has all but its registers.
type restoring struct {
	script  *checkpoint.Restore
	process *spawn.Process
}

// newZygote starts a zygote for the process at a place, which may be running.
func newZygote(h *confine.Host, pid, place int, thread *spawn.Thread) (*Zygote, error) {
	at, err := checkpoint.FreeAddress(pid, scriptRoom)
	if err != nil {
		return nil, err
	}
	r, err := newRunner(h, thread, at, 1)
	if err != nil {
		return nil, err
	}
	return &Zygote{runner: r, place: place, phase: empty}, nil
}

// lock takes the zygote, once no warm fork is being made of it.
func (z *Zygote) lock() {
	for {
		z.mu.Lock()
		making := z.making
		if making == nil {
			return
		}
		z.mu.Unlock()
		<-making
	}
}

// fail marks the zygote as one that cannot be forked any more, for a reason.
func (z *Zygote) fail(err error) error {
	if err != nil {
		advance(phases, &z.phase, dead)
	}
	return err
}

// usable says whether the zygote can be forked, once nobody uses it: that is not to
// be waited for while processes are stopped.
func (z *Zygote) usable() bool {
	z.lock()
	defer z.mu.Unlock()
	return z.phase != dead
}

// take takes the memory of the process, while it is stopped, or notes what has
// changed.
func (z *Zygote) take(state *checkpoint.State) (err error) {
	z.lock() // no fork's memory is looked at meanwhile
	defer z.mu.Unlock()
	if err := z.applyDelta(); err != nil {
		return err
	}
	var delta *checkpoint.Delta
	if z.memory.tracker != nil {
		if delta, err = state.Delta(z.memory.state); err != nil {
			return err
		}
	}
	check := func() error { return nil }
	next := behind
	if delta == nil {
		next = current
		if check, err = z.takeWhole(state); err != nil {
			return err
		}
	}
	z.track(state)
	z.memory.state, z.memory.delta = state, delta
	z.memory.generation++
	advance(phases, &z.phase, next)
	return check()
}

// takeWhole has the zygote do what there is to do. A warm fork cannot follow.
func (z *Zygote) takeWhole(state *checkpoint.State) (check func() error, err error) {
	if err := z.dropWarm(); err != nil {
		return nil, err
	}
	s := z.steps()
	if check, err = state.RestoreMemory(z.script, z.process.Pid(), z.memory.state); err != nil {
		return nil, err
	}
	z.script.Return()
	return check, errors.Join(s.Err(), z.runScript())
}

// track begins to notice what is written from now on. A kernel that cannot, or does
// not let us, costs time only.
func (z *Zygote) track(state *checkpoint.State) {
	m, err := &z.memory, error(nil)
	if m.state == nil {
		m.tracker, err = state.Track()
	}
	if err == nil && m.tracker != nil {
		err = m.tracker.Watch(state)
	}
	if err != nil {
		m.tracker.Close()
		m.tracker = nil
	}
}

// catchUp writes what has changed, to the warm fork if there is one: the zygote
// itself has time until it is needed. The process has gone on.
func (z *Zygote) catchUp() error {
	z.lock()
	defer z.mu.Unlock()
	if z.phase != behind || z.warm == nil {
		return z.applyDelta()
	}
	err := z.awaitJoined()
	if err == nil {
		err = z.memory.delta.Apply(z.warm.process.Pid())
	}
	return z.fail(err)
}

// applyDelta writes what has changed to the zygote.
func (z *Zygote) applyDelta() error {
	if z.phase != behind {
		return nil
	}
	if err := z.memory.delta.Apply(z.process.Pid()); err != nil {
		return z.fail(err)
	}
	z.memory.delta = nil
	advance(phases, &z.phase, current)
	return nil
}

// runScript has the zygote run the script that was written.
func (z *Zygote) runScript() error {
	if err := z.applyDelta(); err != nil {
		return err
	}
	return z.run()
}

// collapse makes huge pages of the zygote's, which makes forks cheaper for whoever
// will have many at once.
func (z *Zygote) collapse() error {
	z.lock()
	defer z.mu.Unlock()
	if z.phase != current && z.phase != behind {
		return nil
	}
	z.memory.state.CollapsePages(z.steps().Script)
	z.script.Return()
	return z.runScript()
}

// sample looks at what a fork of that generation has used of its memory since, for
// those that come after it. A zygote that the fork no longer shares memory with does
// not.
func (z *Zygote) sample(fork *spawn.Process, generation int) error {
	if z.memory.working.Full() {
		return nil
	}
	z.lock()
	defer z.mu.Unlock()
	if z.phase == dead || z.phase == onFiles || z.memory.generation != generation {
		return nil
	}
	return z.memory.working.Sample(fork.Pid())
}

// close ends the zygote. Its forks go on.
func (z *Zygote) close() error {
	z.lock()
	defer z.mu.Unlock()
	advance(phases, &z.phase, dead)
	return errors.Join(z.dropWarm(), z.memory.tracker.Close(), z.runner.close())
}
