package daemon

import (
	"context"

	"aether/driver/guestagent"
	"aether/sandbox"
)

// Workload is a sandbox that its daemon can pause.
type Workload interface {
	guestagent.Workload
	Pause(context.Context) error
	Resume(context.Context) error
}

// Instance is a sandbox that can be paused.
type Instance struct {
	*guestagent.Instance
	body Workload
}

var _ sandbox.Pauser = (*Instance)(nil)

// Add makes an Instance of a sandbox that runs, and begins to watch over it.
func (h *Home) Add(driver string, spec sandbox.Spec, body Workload, dialer guestagent.Dialer) *Instance {
	i := &Instance{guestagent.New(driver, spec.ID, spec, body, dialer), body}
	h.Fleet.Add(i.Instance)
	return i
}

// Pause implements sandbox.Pauser.
func (i *Instance) Pause(ctx context.Context) error {
	return i.SetPaused(true, func() error { return i.body.Pause(ctx) })
}

// Resume implements sandbox.Pauser.
func (i *Instance) Resume(ctx context.Context) error {
	return i.SetPaused(false, func() error { return i.body.Resume(ctx) })
}
