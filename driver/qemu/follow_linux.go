package qemu

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"time"

	"aether/guest/pid1"
	"aether/image"
)

// follow starts the machine from a template.
func (m *machine) follow(ctx context.Context, t *template, image image.Config) (*instance, error) {
	i, err := m.start(ctx, beginning{
		invocation: invocation{memory: t.memory},
		load:       func(ctx context.Context) error { return m.load(ctx, t.state) },
		greet:      func(ctx context.Context) error { return m.configure(ctx, m.config(nil, image)) },
	})
	if err != nil && m.process != nil && m.dialer == nil && ctx.Err() == nil {
		// No guest came of it. Whatever is wrong, the next machine gets another.
		err = errors.Join(err, m.engine.templates.forget(t))
	}
	return i, err
}

// load has QEMU take over the state of a template whose memory it has mapped.
func (m *machine) load(ctx context.Context, state *os.File) error {
	const name = "state"
	if err := m.leaveMemory(ctx, true); err != nil {
		return err
	}
	if err := m.monitor.CallFile(ctx, state, "getfd", map[string]any{"fdname": name}, nil); err != nil {
		return err
	}
	if err := m.monitor.Call(ctx, "migrate-incoming", map[string]any{"uri": "fd:" + name}, nil); err != nil {
		return err
	}
	if err := m.goOn(ctx); err != nil {
		return err
	}
	return m.leaveMemory(ctx, false) // a snapshot of this machine has its memory
}

// leaveMemory keeps memory out of what QEMU saves and loads: the file that it is
// mapped from has it.
func (m *machine) leaveMemory(ctx context.Context, out bool) error {
	type capability struct {
		Name string `json:"capability"`
		On   bool   `json:"state"`
	}
	return m.monitor.Call(ctx, "migrate-set-capabilities", map[string]any{"capabilities": []capability{{"x-ignore-shared", out}}}, nil)
}

// configure makes the guest this sandbox's own.
func (m *machine) configure(ctx context.Context, c pid1.Config) error {
	secret := make([]byte, 64)
	_, _ = rand.Read(secret) // never fails
	return pid1.Configure(ctx, m.dialer.Dial, pid1.Configuration{Secret: secret, Now: time.Now(), Config: c})
}
