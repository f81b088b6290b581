package vmm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"aether/driver/guestagent"
	"aether/guest/pid1"
	"aether/internal/host/cgroup"
	"aether/network"
	"aether/sandbox"
)

// machine is one monitor and everything that it holds.
type machine struct {
	engine   *engine
	id       string
	spec     sandbox.Spec
	hardware Hardware
	origin   origin
	disk     *os.File // nil for a template
	// memory are the files that the memory of a machine that can be forked is in; of one that
	// was restored, those of a template that it is over, before its first fork.
	memory []*os.File
	// base is the first of them on disk, or of the files of one that was restored; nil is none.
	base *base
	// writable is the disk that it writes to; nil of one that writes to its memory.
	writable *writable
	place    workplace
	group    *cgroup.Group // nil where there are no cgroups
	process  *process
	monitor  Monitor
	line     line
	stage    stage
	network  *network.Attached // nil for one without

	// verbs are pause, resume, snapshot and fork, one at a time.
	verbs  sync.Mutex
	paused bool
	// cut says that the way to its network was lost while it was paused.
	cut bool
	// held says that its commands stand still inside, and holding is what has stopped them; nil
	// of a copy, which was stopped as another.
	held    bool
	holding *pid1.Held
	// forks is how often it was forked, forkPause for how long its commands stood still at
	// the last, and forkFreeze its processors.
	forks                 int64
	forkPause, forkFreeze atomic.Int64
	// renewed is what it has of its own, as a copy of another.
	renewed []string
}

// origin is what a machine was made of, as far as its disk does not tell.
type origin struct {
	Image string `json:"image,omitempty"`
	// Defaults are those of commands: the image's, and over them the caller's.
	Defaults guestagent.Settings `json:"defaults,omitzero"`
}

// instance is one living sandbox: the lifecycle that all drivers with a service
// inside share, and what only machines can do.
type instance struct {
	*guestagent.Instance
	*machine
}

var (
	_ sandbox.Instance        = (*instance)(nil)
	_ sandbox.Pauser          = (*instance)(nil)
	_ sandbox.Snapshotter     = (*instance)(nil)
	_ sandbox.Forker          = (*instance)(nil)
	_ sandbox.ForkReporter    = (*instance)(nil)
	_ sandbox.RenewalReporter = (*instance)(nil)
	_ sandbox.Console         = (*instance)(nil)
)

// stage is how far a machine has come.
type stage int

const (
	started   stage = iota // its monitor runs
	answering              // its monitor answers
	reachable              // its guest service answers
)

// lacks is what a machine at a stage has not done.
func (s stage) lacks(system string) string {
	switch s {
	case started:
		return system + " did not answer"
	case answering:
		return "the guest service did not answer"
	}
	return "the guest service could not set the machine up"
}

// workload is a machine as its lifecycle sees it.
type workload struct{ *machine }

var _ guestagent.Workload = workload{}

// Stats implements guestagent.Workload. The memory is what the sandbox costs the host, with
// the monitor's own: how much of its limit the guest uses only the guest knows.
func (b workload) Stats(context.Context) (sandbox.Stats, error) {
	if b.group == nil {
		return sandbox.Stats{}, nil
	}
	stats, err := b.group.Stats()
	stats.MemoryPeakBytes = nil // would be held against the limit, which is the guest's
	stats.Processes = nil       // the monitor's own threads
	return stats, err
}

// Kill implements guestagent.Workload.
func (b workload) Kill() error { return b.process.kill() }

// Wait implements guestagent.Workload. A guest that has halted or broken its line is of no
// use to anybody, unless it is ending anyway.
func (b workload) Wait() sandbox.Exit {
	select {
	case <-b.process.ended:
		return b.unasked("its monitor ended")
	case <-b.process.console.halted:
		return b.giveUp("its kernel halted")
	case <-b.line.broken():
	}
	select {
	case <-b.process.ended:
		return b.unasked("its monitor ended")
	case <-time.After(parting):
		return b.giveUp("the guest broke the connection to its service")
	}
}

func (b workload) giveUp(why string) sandbox.Exit {
	exit := b.unasked(why)
	if err := b.process.kill(); err != nil {
		exit.Detail += ": " + err.Error()
	}
	<-b.process.ended
	return exit
}

const (
	// settle is how long the end of a process may come after the end of its wires, on a host
	// that is busy: what it has said of that is known then. hurried is that where nobody waits
	// for the reason.
	settle  = 2 * time.Second
	hurried = 200 * time.Millisecond
	// parting is how long a guest whose service is gone may take to end itself: a
	// kernel that panics has something to say first.
	parting = 5 * time.Second
)

// unasked says how a machine ended that nobody asked to.
func (m *machine) unasked(how string) sandbox.Exit {
	if m.group.OutOfMemory() {
		return sandbox.Exit{Cause: sandbox.OutOfMemory, Detail: "the monitor used more than its guest's memory and what it needs itself"}
	}
	select {
	case <-m.process.ended:
		if m.process.err != nil {
			how += ": " + m.process.err.Error()
		}
	default:
	}
	return sandbox.Exit{Cause: sandbox.Crashed, Detail: how + m.said()}
}

// said is what the monitor and the guest's kernel had to say, as a part of a
// sentence.
func (m *machine) said() string {
	text := ""
	if said := m.process.messages.String(); said != "" {
		text += "; " + m.engine.system.Name + " says: " + said
	}
	if said := m.process.console.String(); said != "" {
		text += "; its console says: " + said
	}
	return text
}

// Console implements sandbox.Console. A machine that goes on from a template or a snapshot
// has a console of its own: what was said before is not on it.
func (i *instance) Console(context.Context) (end []byte, cut bool, err error) {
	end, cut = i.process.console.end()
	return end, cut, nil
}

// Release implements guestagent.Workload.
func (b workload) Release(ctx context.Context) error { return b.release(ctx) }

// release gives back everything that a machine holds, in whatever state.
func (m *machine) release(ctx context.Context) error {
	err := m.network.Leave()
	if m.process != nil {
		err = errors.Join(err, m.process.kill())
	}
	if m.holding != nil {
		m.holding.Close()
	}
	if m.line != nil {
		err = errors.Join(err, m.line.Close())
	}
	if m.monitor != nil {
		m.monitor.Close()
	}
	if m.process != nil {
		<-m.process.ended
	}
	if m.group != nil {
		err = errors.Join(err, m.group.Kill(ctx), m.group.Remove(ctx)) // also what the monitor started
	}
	if m.place != nil {
		err = errors.Join(err, m.place.close())
	}
	closed := func() {
		m.closeFiles()
		m.verbs.Unlock()
	}
	if m.verbs.TryLock() {
		closed()
	} else { // somebody copies them, and does not hear of the end before
		go func() {
			m.verbs.Lock()
			closed()
		}()
	}
	if m.disk != nil {
		err = errors.Join(err, m.disk.Close())
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", m.id, err)
	}
	return nil
}

// closeFiles closes the files of its memory and of what it writes.
func (m *machine) closeFiles() {
	closeAll(m.memory)
	m.base.close()
	m.writable.close()
}

// ending says that a machine is not found, rather than what failed because of it.
func (m *machine) ending(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-m.process.ended:
		return &sandbox.Error{Class: sandbox.NotFound, Op: m.engine.system.Name + ": " + m.id, Reason: "the sandbox has ended"}
	default:
		return err
	}
}
