package vmm

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"syscall"
	"time"

	"aether/driver/lifetime"
	"aether/guest/pid1"
	"aether/sandbox"
)

// Pause implements sandbox.Pauser.
func (i *instance) Pause(ctx context.Context) error {
	i.verbs.Lock()
	defer i.verbs.Unlock()
	if err := i.expect(false); err != nil {
		return err
	}
	if may := i.engine.system.MayPause; may != nil {
		if err := may(i.engine.program.version); err != nil {
			return err
		}
	}
	// A machine whose commands cannot be stopped inside is paused all the same: then it
	// cannot be copied.
	_ = i.hold(ctx)
	if err := i.ending(i.stop(ctx)); err != nil {
		return errors.Join(err, i.letGo(ctx))
	}
	i.paused = true
	return nil
}

// Resume implements sandbox.Pauser.
func (i *instance) Resume(ctx context.Context) error {
	i.verbs.Lock()
	defer i.verbs.Unlock()
	if err := i.expect(true); err != nil {
		return err
	}
	if err := i.ending(i.monitor.Resume(ctx)); err != nil {
		return err
	}
	i.paused = false
	err := i.wake(ctx)
	if err == nil {
		i.mendNetwork(ctx)
	}
	// It runs, also if nobody waited until it was told the time: so do its commands.
	return errors.Join(err, i.letGo(ctx))
}

// stop has the processors stand still, or leaves them running. It waits for the monitor
// whatever becomes of the caller: of an order without an answer nobody knows whether it was
// carried out.
func (m *machine) stop(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
	defer cancel()
	err := m.monitor.Pause(patient)
	if err == nil || patient.Err() == nil {
		return err
	}
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
	defer cancel()
	return errors.Join(err, m.monitor.Resume(again))
}

func (i *instance) expect(paused bool) error {
	if err := i.Alive(); err != nil {
		return err
	}
	if i.paused == paused {
		return nil
	}
	return &sandbox.Error{Class: sandbox.Conflict, Op: i.engine.system.Name + ": " + i.ID(),
		Reason: map[bool]string{true: "it is not paused", false: "it is paused"}[paused]}
}

// wakeTime bounds the waking of a machine, which has stood still.
const wakeTime = 30 * time.Second

// wake tells the guest what time it is, and something that no other copy of it
// knows.
func (m *machine) wake(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, wakeTime)
	defer cancel()
	for {
		err := m.line.await(ctx, m.process.over)
		if err != nil {
			return m.ending(err)
		}
		if err = m.refresh(ctx); !isCut(err) {
			return m.ending(err)
		}
		// A guest that goes on from a saved state is told that its connections are gone, and
		// may hear that when it has taken a new one already, which it then cuts, too.
		select {
		case <-m.process.over:
			return m.ending(err)
		case <-ctx.Done():
			return m.ending(err)
		case <-time.After(attemptWait):
		}
	}
}

// refresh can be done again.
func (m *machine) refresh(ctx context.Context) error {
	secret := make([]byte, 64)
	_, _ = rand.Read(secret) // never fails
	if err := pid1.AddEntropy(ctx, m.line.Dial, secret); err != nil {
		return err
	}
	return pid1.SetClock(ctx, m.line.Dial, time.Now())
}

// isCut says that a connection ended before there was an answer.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
