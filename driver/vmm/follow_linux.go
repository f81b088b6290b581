package vmm

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"time"

	"aether/guest/pid1"
)

// follow starts the machine from a template.
func (m *machine) follow(ctx context.Context, t *template, files *os.File) (*instance, error) {
	if m.engine.system.Handed {
		var err error
		if m.memory, err = againAll([]*os.File{t.memory}); err == nil {
			m.base, err = t.base.again()
		}
		if err != nil {
			m.closeFiles()
			return nil, errors.Join(err, m.disk.Close())
		}
	}
	i, err := m.start(ctx, beginning{
		fill:  t.give,
		begin: func(ctx context.Context) error { return m.place.load(ctx, m) },
		greet: func(ctx context.Context) error {
			if err := m.configure(ctx, m.config(nil)); err != nil {
				return err
			}
			return m.settle(ctx, files)
		},
	})
	if err != nil && m.process != nil && m.stage < reachable && ctx.Err() == nil {
		// No guest came of it. Whatever is wrong, the next machine gets another.
		err = errors.Join(err, m.engine.templates.forget(t))
	}
	return i, err
}

func (t *template) give(place workplace) error {
	return errors.Join(place.share(t.memory, Memory), place.share(t.state, filepath.Join(Saved, stateFile)))
}

// configure makes the guest this sandbox's own.
func (m *machine) configure(ctx context.Context, c pid1.Config) error {
	secret := make([]byte, 64)
	_, _ = rand.Read(secret) // never fails
	return pid1.Configure(ctx, m.line.Dial, pid1.Configuration{Secret: secret, Now: time.Now(), Config: c})
}
