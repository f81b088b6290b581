package command

import (
	"context"

	"aether/driver/guestagent"
	"aether/sandbox"
)

// Instance is a sandbox that can be paused.
type Instance struct {
	*guestagent.Instance
	body   *workload
	spec   sandbox.Spec
	digest string // of the image
}

var _ sandbox.Pauser = (*Instance)(nil)

// Pause implements sandbox.Pauser.
func (i *Instance) Pause(ctx context.Context) error {
	return i.setPaused(true, func() error { return i.body.group.Freeze(ctx) })
}

// Resume implements sandbox.Pauser.
func (i *Instance) Resume(context.Context) error {
	return i.setPaused(false, func() error { return i.body.group.Thaw() })
}

func (i *Instance) setPaused(paused bool, change func() error) error {
	return i.SetPaused(paused, func() error {
		if i.body.group == nil {
			return &sandbox.Error{Class: sandbox.Unavailable, Op: i.body.engine.system.Name + ": pause", Err: i.body.engine.groups.unlimited}
		}
		return change()
	})
}
