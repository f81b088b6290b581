package gvisor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"aether/host/storedir"
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

func (i *instance) fork(ctx context.Context, children []sandbox.Spec) (_ []sandbox.Instance, err error) {
	m := i.manifest()
	for _, spec := range children {
		if err := spec.Validate(); err != nil {
			return nil, err
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
	defer func() { err = errors.Join(err, release()) }()
	if err := i.Snapshot(ctx, dir); err != nil {
		return nil, err
	}
	return i.driver.goOnAll(ctx, dir, m, children)
}

func (d *Driver) forkDir() string { return filepath.Join(d.opts.StateDir, "forks") }

// goOnAll makes all sandboxes or none.
func (d *Driver) goOnAll(ctx context.Context, dir string, m manifest, specs []sandbox.Spec) ([]sandbox.Instance, error) {
	list, errs := make([]sandbox.Instance, len(specs)), make([]error, len(specs))
	var work sync.WaitGroup
	for n, spec := range specs {
		work.Go(func() {
			i, err := d.goOn(ctx, dir, m, spec)
			if errs[n] = err; err == nil {
				list[n] = i
			}
		})
	}
	work.Wait()
	err := errors.Join(errs...)
	if err == nil {
		return list, nil
	}
	for _, i := range list {
		if i != nil {
			err = errors.Join(err, i.Destroy(ctx))
		}
	}
	return nil, err
}

// Reap implements sandbox.Reaper: beside what all launched programs leave, there
// may be half-made forks.
func (d *Driver) Reap(ctx context.Context) (int, error) {
	count, err := d.Driver.Reap(ctx)
	forks, forkErr := storedir.ReapScratch(d.forkDir())
	return count + forks, errors.Join(err, forkErr)
}
