package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

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
	specs := make([]sandbox.Spec, len(children))
	m := i.engine.manifest(i.hardware, i.spec.Limits)
	for n, spec := range children {
		if err := spec.Validate(); err != nil {
			return nil, err
		}
		spec.Image, spec.Mounts, spec.Command = "", nil, sandbox.CommandDefaults{}
		if spec.Limits, err = i.engine.fit(m, spec.Limits); err != nil {
			return nil, err
		}
		if err := i.engine.accepts(spec); err != nil {
			return nil, err
		}
		specs[n] = spec
	}
	dir, lock, err := newFork(ctx, i.engine.opts.forkDir())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir), lock.Release()) }()
	if err := i.Snapshot(ctx, dir); err != nil {
		return nil, err
	}
	return i.engine.restoreAll(ctx, dir, specs, i.hardware)
}

// restoreAll makes all machines or none.
func (e *engine) restoreAll(ctx context.Context, dir string, specs []sandbox.Spec, hw hardwareOf) ([]sandbox.Instance, error) {
	list, errs := make([]sandbox.Instance, len(specs)), make([]error, len(specs))
	var work sync.WaitGroup
	for n, spec := range specs {
		work.Go(func() {
			i, err := e.restore(ctx, dir, spec, hw)
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
