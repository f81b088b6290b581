package vmm

import (
	"context"
	"errors"

	"aether/driver/guestagent"
	"aether/driver/lifetime"
	"aether/sandbox"
)

// beginning is how a machine comes to life.
type beginning struct {
	// fill gives the monitor what it needs before it starts, and begin has it set
	// the machine going.
	fill  func(workplace) error
	begin func(context.Context) error
	// greet, if not nil, is what the guest is told before anybody else can talk to it.
	greet func(context.Context) error
}

// start starts the machine and waits for its guest service. It takes the machine
// over: a failure leaves nothing.
func (m *machine) start(ctx context.Context, b beginning) (*instance, error) {
	leave, err := m.engine.fleet.Enter(m.engine.system.Name)
	if err != nil {
		m.closeFiles()
		return nil, errors.Join(err, m.disk.Close())
	}
	defer leave()
	if m.engine.system.Handed {
		defer m.engine.warm.needed(m.engine)()
	}
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	if err := m.begin(ctx, b); err != nil {
		return nil, m.abandon(ctx, err)
	}
	i := &instance{guestagent.New(m.engine.system.Name, m.id, m.spec, workload{m}, m.line), m}
	m.engine.fleet.Add(i.Instance)
	return i, nil
}

func (m *machine) begin(ctx context.Context, b beginning) error {
	if err := m.launch(ctx, b.fill); err != nil {
		return err
	}
	if err := m.meet(ctx); err != nil {
		return err
	}
	m.stage = answering
	if err := b.begin(ctx); err != nil {
		return err
	}
	if err := m.line.await(ctx, m.process.over); err != nil {
		return err
	}
	m.stage = reachable
	if b.greet == nil {
		return nil
	}
	return b.greet(ctx)
}

// abandon gives everything of a machine back that did not come up, and says why.
func (m *machine) abandon(ctx context.Context, err error) error {
	err = m.explain(ctx, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
	defer cancel()
	return errors.Join(err, m.release(ctx))
}

// explain says why a machine did not come up, in the words of whoever knows: the
// monitor, or the guest's kernel.
func (m *machine) explain(ctx context.Context, err error) error {
	if m.process == nil {
		return err
	}
	if sandbox.ClassOf(err) == sandbox.Unsupported {
		return err // the guest itself has said what it cannot do
	}
	e := &sandbox.Error{Class: sandbox.Unavailable, Err: err}
	soon := settle
	if ctx.Err() != nil {
		soon = hurried
	}
	if m.process.isOver(soon) {
		e.Reason = "the machine ended before its guest service answered"
	} else {
		e.Reason = m.stage.lacks(m.engine.system.Name)
		if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			e.Class = sandbox.Timeout
		}
	}
	e.Reason += m.said()
	return e
}
