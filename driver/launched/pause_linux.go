package launched

import (
	"context"

	"aether/guest/inside"
	"aether/sandbox"
)

// instance is a sandbox that can be paused.
type instance struct {
	*inside.Instance
	body *body
}

var _ sandbox.Pauser = (*instance)(nil)

// Pause implements sandbox.Pauser.
func (i *instance) Pause(ctx context.Context) error {
	return i.setPaused(true, func() error { return i.body.group.Freeze(ctx) })
}

// Resume implements sandbox.Pauser.
func (i *instance) Resume(context.Context) error {
	return i.setPaused(false, func() error { return i.body.group.Thaw() })
}

func (i *instance) setPaused(paused bool, change func() error) error {
	return i.SetPaused(paused, func() error {
		if i.body.group == nil {
			return &sandbox.Error{Class: sandbox.Unavailable, Op: i.body.engine.system.Name + ": pause", Err: i.body.engine.groups.Unlimited()}
		}
		return change()
	})
}
