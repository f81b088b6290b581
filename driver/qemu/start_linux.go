package qemu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aether/driver/guestagent"
	"aether/driver/qemu/qmp"
	"aether/guest/channel"
	"aether/internal/host/cgroup"
	"aether/sandbox"
)

// beginning is how a machine comes to life.
type beginning struct {
	invocation
	// load, if not nil, is what QEMU has to do before the machine runs, and greet
	// what the guest is told before anybody else can talk to it.
	load, greet func(context.Context) error
}

// start starts the machine and waits for its guest service. It takes the machine
// over: a failure leaves nothing.
func (m *machine) start(ctx context.Context, b beginning) (*instance, error) {
	leave, err := m.engine.fleet.Enter(Name)
	if err != nil {
		return nil, errors.Join(err, m.disk.Close())
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	if err := m.begin(ctx, b); err != nil {
		return nil, m.abandon(ctx, err)
	}
	i := &instance{guestagent.New(Name, m.id, m.spec, body{m}, m.dialer), m}
	m.engine.fleet.Add(i.Instance)
	return i, nil
}

func (m *machine) begin(ctx context.Context, b beginning) error {
	if err := m.launch(ctx, b.invocation); err != nil {
		return err
	}
	if b.load != nil {
		if err := b.load(ctx); err != nil {
			return err
		}
	}
	var err error
	if m.dialer, err = channel.Connect(ctx, m.wires.channel); err != nil {
		return err
	}
	if b.greet != nil {
		return b.greet(ctx)
	}
	return nil
}

// abandon gives everything of a machine back that did not come up, and says why.
func (m *machine) abandon(ctx context.Context, err error) error {
	err = m.explain(ctx, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), guestagent.CleanupTime)
	defer cancel()
	return errors.Join(err, m.release(ctx))
}

// launch starts QEMU and waits for its monitor.
func (m *machine) launch(ctx context.Context, l invocation) (err error) {
	e := m.engine
	l.program, l.disk, l.attach.Into = e.program, m.disk, -1
	l.user = lowlyUser(e.accel)
	l.args = func(fds inherited) []string { return arguments(e.accel, m.hardware, fds) }
	if e.groups != nil {
		if m.group, err = e.groups.Create(fmt.Sprintf("machine-%d", e.count.Add(1))); err != nil {
			return err
		}
		if err := m.limit(); err != nil {
			return err
		}
		if l.attach, err = m.group.Attach(true); err != nil {
			return err
		}
	}
	if m.process, m.wires, err = l.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, monitorTime)
	defer cancel()
	m.monitor, err = qmp.New(ctx, m.wires.monitor)
	return err
}

// monitorTime is how long QEMU may take to answer on its monitor: it is there
// before any guest runs.
const monitorTime = time.Minute

// limit holds QEMU itself, in case that a guest takes it over, and shares of
// processors.
func (m *machine) limit() error {
	var limits cgroup.Limits
	held := m.engine.hierarchy.Holds()
	if held&cgroup.Memory != 0 {
		limits.Memory = m.hardware.MemoryMiB*mebibyte + overhead
	}
	if held&cgroup.CPU != 0 {
		limits.CPUs = m.spec.Limits.CPUs
	}
	if held&cgroup.Pids != 0 {
		limits.Pids = maxThreads + int64(m.hardware.CPUs)
	}
	return m.group.Set(limits)
}

// maxThreads is what QEMU has beside one for each processor: its workers come and
// go with disk requests.
const maxThreads = 128

// explain says why a machine did not come up, in the words of whoever knows:
// QEMU, or the guest's kernel.
func (m *machine) explain(ctx context.Context, err error) error {
	if m.process == nil {
		return err
	}
	e := &sandbox.Error{Class: sandbox.Unavailable, Err: err, Reason: "the guest service did not answer"}
	select {
	case <-m.process.ended:
		e.Reason = "the machine ended before its guest service answered"
	case <-time.After(settle):
		if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			e.Class = sandbox.Timeout
		}
		if m.monitor == nil {
			e.Reason = "QEMU did not answer"
		} else if m.dialer != nil {
			e.Reason = "the guest service could not set the machine up"
		}
	}
	e.Reason += m.said()
	return e
}
