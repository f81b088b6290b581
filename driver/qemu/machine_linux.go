package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"aether/driver/guestagent"
	"aether/driver/qemu/qmp"
	"aether/guest/channel"
	"aether/internal/host/cgroup"
	"aether/sandbox"
)

// machine is one QEMU and everything that it holds.
type machine struct {
	engine   *engine
	id       string
	spec     sandbox.Spec
	hardware hardwareOf
	disk     *os.File      // nil for a template
	group    *cgroup.Group // nil where there are no cgroups
	process  *process
	wires    wires
	monitor  *qmp.Client
	dialer   *channel.Dialer

	// verbs are pause, resume and snapshot, one at a time.
	verbs  sync.Mutex
	paused bool
}

// body is a machine as its lifecycle sees it.
type body struct{ *machine }

var _ guestagent.Body = body{}

// Stats implements guestagent.Body. The memory is what the sandbox costs the host, with
// QEMU's own: how much of its limit the guest uses only the guest knows.
func (b body) Stats(context.Context) (sandbox.Stats, error) {
	if b.group == nil {
		return sandbox.Stats{}, nil
	}
	stats, err := b.group.Stats()
	stats.MemoryPeakBytes = nil // would be held against the limit, which is the guest's
	stats.Processes = nil       // QEMU's own threads
	return stats, err
}

// Kill implements guestagent.Body.
func (b body) Kill() error { return b.process.kill() }

// Wait implements guestagent.Body.
func (b body) Wait() sandbox.Exit {
	select {
	case <-b.process.ended:
		return b.unasked()
	case <-b.dialer.Done():
	}
	// A guest that broke the channel is of no use to anybody any more, unless it
	// is ending anyway.
	select {
	case <-b.process.ended:
		return b.unasked()
	case <-time.After(parting):
	}
	exit := sandbox.Exit{Cause: sandbox.Crashed, Detail: "the guest broke the connection to its service"}
	if err := b.process.kill(); err != nil {
		exit.Detail += ": " + err.Error()
	}
	<-b.process.ended
	return exit
}

const (
	// settle is how long the end of a process may come after the end of its wires.
	settle = 200 * time.Millisecond
	// parting is how long a guest whose service is gone may take to end itself: a
	// kernel that panics has something to say first.
	parting = 5 * time.Second
)

// unasked says how a machine ended that nobody asked to.
func (m *machine) unasked() sandbox.Exit {
	if m.group != nil {
		if events, err := m.group.Events(); err == nil && events.OOMKills > 0 {
			return sandbox.Exit{Cause: sandbox.OutOfMemory, Detail: "QEMU used more than its guest's memory and what it needs itself"}
		}
	}
	detail := "QEMU ended"
	if m.process.err != nil {
		detail += ": " + m.process.err.Error()
	}
	return sandbox.Exit{Cause: sandbox.Crashed, Detail: detail + m.said()}
}

// said is what QEMU and the guest's kernel had to say, as a part of a sentence.
func (m *machine) said() string {
	text := ""
	if said := m.process.messages.String(); said != "" {
		text += "; QEMU says: " + said
	}
	if said := m.process.console.String(); said != "" {
		text += "; its console says: " + said
	}
	return text
}

// Release implements guestagent.Body.
func (b body) Release(ctx context.Context) error { return b.release(ctx) }

// release gives back everything that a machine holds, in whatever state.
func (m *machine) release(ctx context.Context) error {
	var err error
	if m.process != nil {
		err = m.process.kill()
	}
	if m.dialer != nil {
		_ = m.dialer.Close() // its stream is closed with the others
	}
	if m.monitor != nil {
		_ = m.monitor.Close()
	}
	m.wires.close()
	if m.process != nil {
		<-m.process.ended
	}
	if m.group != nil {
		err = errors.Join(err, m.group.Remove(ctx))
	}
	if m.disk != nil {
		err = errors.Join(err, m.disk.Close())
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", m.id, err)
	}
	return nil
}

func (m *machine) gone() error {
	return &sandbox.Error{Class: sandbox.NotFound, Op: Name + ": " + m.id, Reason: "the sandbox has ended"}
}

// ending says that a machine is not found, rather than what failed because of it.
func (m *machine) ending(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-m.process.ended:
		return m.gone()
	default:
		return err
	}
}
