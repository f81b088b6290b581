package vmm

import (
	"context"
	"fmt"
	"time"

	"aether/driver/guestagent"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

// ForkFidelity implements sandbox.Forker.
func (i *instance) ForkFidelity() sandbox.Fidelity { return i.engine.system.forkFidelity() }

// LastForkPause implements sandbox.ForkReporter.
func (i *instance) LastForkPause() time.Duration { return time.Duration(i.forkPause.Load()) }

// LastForkFreeze is how long the processors of the source stood still at the last fork: less
// than its commands, where those are stopped first.
func (i *instance) LastForkFreeze() time.Duration { return time.Duration(i.forkFreeze.Load()) }

// Fork implements sandbox.Forker: from memory that source and children share, or through a
// snapshot of which no name is left.
func (i *instance) Fork(ctx context.Context, children []sandbox.Spec) ([]sandbox.Instance, error) {
	list, err := i.fork(ctx, children)
	if err != nil {
		return nil, fmt.Errorf("%s: fork %s: %w", i.engine.system.Name, i.ID(), err)
	}
	return list, nil
}

func (i *instance) fork(ctx context.Context, children []sandbox.Spec) (_ []sandbox.Instance, err error) {
	specs := make([]sandbox.Spec, len(children))
	m := i.manifest()
	for n, spec := range children {
		if err := spec.Validate(); err != nil {
			return nil, err
		}
		spec.Image, spec.Mounts, spec.Command = "", nil, sandbox.CommandDefaults{}
		if spec.Network.Mode == sandbox.NoNetwork {
			spec.Network = i.network.Network()
		}
		if spec.Limits, err = i.engine.fit(m, spec.Limits); err != nil {
			return nil, err
		}
		if err := i.engine.accepts(ctx, spec); err != nil {
			return nil, err
		}
		specs[n] = spec
	}
	if forker, ok := i.monitor.(Forker); ok {
		return i.forkLive(ctx, forker, specs, m)
	}
	return i.forkSaved(ctx, specs, m)
}

func (i *instance) forkSaved(ctx context.Context, specs []sandbox.Spec, m manifest) ([]sandbox.Instance, error) {
	dir, remove, err := storedir.Scratch(ctx, forksDir(i.engine.opts))
	if err != nil {
		return nil, err
	}
	defer guestagent.Discard(i.engine.opts.Logger, i.engine.system.Name+": what a fork was made from could not be removed", remove)
	still, err := i.saveTo(ctx, dir, sandbox.Checkpoint)
	if err != nil {
		return nil, err
	}
	i.forkPause.Store(int64(still)) // its commands are not stopped before
	i.forkFreeze.Store(int64(still))
	return guestagent.MakeAll(ctx, specs, func(spec sandbox.Spec) (sandbox.Instance, error) {
		return i.engine.restore(ctx, dir, spec, m)
	})
}
