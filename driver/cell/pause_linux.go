package cell

import (
	"context"

	"aether/internal/host/cgroup"
	"aether/sandbox"
)

// Pause implements sandbox.Pauser.
func (i *instance) Pause(ctx context.Context) error {
	return i.setPaused(true, func(group *cgroup.Group) error {
		i.cell.Hold(true)
		err := group.Freeze(ctx)
		if err != nil {
			i.cell.Hold(false)
		}
		return err
	})
}

// Resume implements sandbox.Pauser.
func (i *instance) Resume(context.Context) error {
	return i.setPaused(false, func(group *cgroup.Group) error {
		err := group.Thaw()
		if err == nil {
			i.cell.Hold(false)
		}
		return err
	})
}

func (i *instance) setPaused(paused bool, change func(*cgroup.Group) error) error {
	defer i.hold()()
	return i.SetPaused(paused, func() error {
		group, err := i.occupy()
		if err != nil {
			return err
		}
		if group == nil {
			return &sandbox.Error{Class: sandbox.Unavailable, Op: "cell: pause", Err: i.engine.unlimited}
		}
		if err := change(group); err != nil {
			return err
		}
		if !paused {
			i.resumed()
		}
		return nil
	})
}

// pauseAgain pauses a cell that was let go for a moment, unless it is ending.
func (i *instance) pauseAgain(ctx context.Context) error {
	return i.Living(func(bool) error { return i.group().Freeze(ctx) })
}
