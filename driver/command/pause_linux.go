package command

import (
	"context"

	"aether/driver/guestagent"
	"aether/sandbox"
)

// Instance is a sandbox that can be paused, and whose files can be kept.
type Instance struct {
	*guestagent.Instance
	body   *workload
	spec   sandbox.Spec
	digest string // of the image
}

var _ sandbox.Pauser = (*Instance)(nil)

// Pause implements sandbox.Pauser.
func (i *Instance) Pause(ctx context.Context) error {
	return i.Verb(func() error { return i.setPaused(ctx, true) })
}

// Resume implements sandbox.Pauser.
func (i *Instance) Resume(ctx context.Context) error {
	return i.Verb(func() error { return i.setPaused(ctx, false) })
}

func (i *Instance) setPaused(ctx context.Context, paused bool) error {
	return i.SetPaused(paused, func() error {
		switch {
		case i.body.group == nil:
			return &sandbox.Error{Class: sandbox.Unavailable, Op: i.body.engine.system.Name + ": pause", Err: i.body.engine.groups.unlimited}
		case paused:
			return i.body.group.Freeze(ctx)
		}
		return i.body.group.Thaw()
	})
}
