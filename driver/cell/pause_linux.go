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
	defer i.hold()()
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.living(); err != nil {
		return err
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
	if !paused {
		i.resumed()
	}
	return nil
}

func (i *instance) isPaused() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.paused
}

// pauseAgain pauses a cell that was let go for a moment, unless it is ending.
func (i *instance) pauseAgain(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.living(); err != nil {
		return err
	}
	return i.group.Freeze(ctx)
}

// living refuses a cell that is ending too: frozen now, it could not die.
func (i *instance) living() error {
	if err := i.alive(); err != nil {
		return err
	}
	if i.cause != "" {
		return &sandbox.Error{Class: sandbox.NotFound, Op: "cell: pause", Reason: "the sandbox is ending"}
	}
	return nil
}
