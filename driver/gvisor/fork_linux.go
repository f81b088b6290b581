package gvisor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"aether/driver/guestagent"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

// ForkFidelity implements sandbox.Forker.
func (i *instance) ForkFidelity() sandbox.Fidelity { return sandbox.Checkpoint }

// Fork implements sandbox.Forker, through a snapshot of which nothing is left.
func (i *instance) Fork(ctx context.Context, children []sandbox.Spec) ([]sandbox.Instance, error) {
	list, err := i.fork(ctx, children)
	if err != nil {
		return nil, fmt.Errorf("%s: fork %s: %w", Name, i.ID(), err)
	}
	return list, nil
}

func (i *instance) fork(ctx context.Context, children []sandbox.Spec) ([]sandbox.Instance, error) {
	m := i.manifest()
	children = slices.Clone(children)
	for n, spec := range children {
		if err := spec.Validate(); err != nil {
			return nil, err
		}
		if spec.Network.Mode == sandbox.NoNetwork {
			spec.Network = m.Network
			children[n] = spec
		}
		if _, err := i.driver.fit(m, spec); err != nil {
			return nil, err
		}
	}
	if err := storedir.Prepare(i.driver.forkDir()); err != nil {
		return nil, err
	}
	dir, release, err := storedir.Scratch(ctx, i.driver.forkDir())
	if err != nil {
		return nil, err
	}
	defer guestagent.Discard(i.driver.opts.Logger, Name+": what a fork was made from could not be removed", release)
	if err := i.saveTo(ctx, dir, []part{memory}); err != nil {
		return nil, err
	}
	return guestagent.MakeAll(ctx, children, func(spec sandbox.Spec) (sandbox.Instance, error) {
		return i.driver.goOn(ctx, dir, m, spec)
	})
}

func (d *Driver) forkDir() string { return filepath.Join(d.opts.StateDir, "forks") }

// Reap implements sandbox.Reaper: beside what all launched programs leave, there
// may be half-made forks.
func (d *Driver) Reap(ctx context.Context) (int, error) {
	count, err := d.Driver.Reap(ctx)
	forks, forkErr := storedir.ReapScratch(d.forkDir())
	return count + forks, errors.Join(err, forkErr)
}
