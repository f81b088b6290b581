package vmm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"path/filepath"
	"time"

	"aether/driver/lifetime"
	"aether/guest/pid1"
	"aether/sandbox"
)

// A machine that is copied, by a fork or a snapshot, has its commands stopped inside before
// it stands still itself. So nothing of the user's runs in a copy before the copy has random
// numbers, a time, names and a network of its own: the guest service, which alone runs, is
// told them first.

// renews says whether the guests of a system are told so.
func (s System) renews() bool { return s.Handed }

// hold has no command run inside.
func (m *machine) hold(ctx context.Context) error {
	if !m.engine.system.renews() || m.held {
		return nil
	}
	holding, err := pid1.Hold(ctx, m.line.Dial)
	if m.held = true; err == nil {
		m.holding = &holding
		return nil
	}
	// It may have been done, though nobody waited for the answer.
	err = errors.Join(m.ending(err), m.letGo(ctx))
	m.held = false
	return err
}

// letGo lets the commands go on, whatever became of the caller.
func (m *machine) letGo(ctx context.Context) error {
	if !m.held {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
	defer cancel()
	if holding := m.holding; holding != nil {
		m.holding = nil
		if holding.LetGo(ctx) == nil {
			m.held = false
			return nil
		}
		// Its connection may not have outlived a pause.
	}
	if err := pid1.LetGo(ctx, m.line.Dial); err != nil {
		return m.ending(err)
	}
	m.held = false
	return nil
}

// standStill has no command run in a machine that is to be copied.
func (m *machine) standStill(ctx context.Context) error {
	if m.paused && !m.held && m.engine.system.renews() {
		return &sandbox.Error{Class: sandbox.Conflict, Reason: "its commands could not be stopped when it was paused, and would run in a copy of it before that is told from its source",
			Remedy: "resume it"}
	}
	return m.hold(ctx)
}

// becomeOther makes a machine that is a copy of another one of its own, before anybody
// can talk to it.
func (m *machine) becomeOther(ctx context.Context, from manifest) error {
	if !m.engine.system.renews() {
		if err := m.wake(ctx); err != nil {
			return err
		}
		return m.rejoinNetwork(ctx, from)
	}
	if !m.changesNetwork(from) {
		err := m.renew(ctx, pid1.GoOn)
		if sandbox.ClassOf(err) != sandbox.Unsupported {
			return err
		}
		// Its service is of a snapshot from before it could do both at once.
	}
	if err := m.renew(ctx, pid1.Renew); err != nil {
		return err
	}
	if err := m.rejoinNetwork(ctx, from); err != nil {
		return err
	}
	m.held = true // by the one that it is a copy of
	return m.letGo(ctx)
}

// renew tells the guest what is to be its own, in one of two ways.
func (m *machine) renew(ctx context.Context, tell func(context.Context, pid1.Dial, pid1.Renewal) error) error {
	ctx, cancel := context.WithTimeout(ctx, wakeTime)
	defer cancel()
	if err := m.line.await(ctx, m.process.over); err != nil {
		return m.ending(err)
	}
	random := make([]byte, 64+16)
	_, _ = rand.Read(random) // never fails
	err := tell(ctx, m.line.Dial, pid1.Renewal{Secret: random[:64], Now: time.Now(), Hostname: m.id, MachineID: hex.EncodeToString(random[64:])})
	if err == nil {
		// The monitor has given it a generation before it ran, and would else have refused it.
		m.renewed = []string{"entropy", "clock", "hostname", "machine_id", "generation_id", "connections"}
	}
	return m.ending(err)
}

// Renewed implements sandbox.RenewalReporter.
func (i *instance) Renewed() []string { return i.renewed }

// stateInSaved is what the state of a machine is called.
func stateInSaved(s System) string { return filepath.Join(Saved, s.SavedFiles[0]) }
