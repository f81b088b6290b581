package cell

import (
	"context"

	"aether/sandbox"
)

// Pause implements sandbox.Pauser.
func (i *instance) Pause(ctx context.Context) error {
	return i.setPaused(true, func() error { return i.group.Freeze(ctx) })
}

// Resume implements sandbox.Pauser.
func (i *instance) Resume(context.Context) error {
	return i.setPaused(false, func() error { return i.group.Thaw() })
}

func (i *instance) setPaused(paused bool, change func() error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.alive(); err != nil {
		return err
	}
	if i.cause != "" {
		// Frozen now, it could not die.
		return &sandbox.Error{Class: sandbox.NotFound, Op: "cell: pause", Reason: "the sandbox is ending"}
	}
	if i.group == nil {
		return &sandbox.Error{Class: sandbox.Unavailable, Op: "cell: pause", Err: i.engine.unlimited}
	}
	if i.paused == paused {
		return &sandbox.Error{Class: sandbox.Conflict, Op: "cell: pause", Reason: map[bool]string{true: "it is paused", false: "it is not paused"}[paused]}
	}
	if err := change(); err != nil {
		return err
	}
	i.paused = paused
	return nil
}
