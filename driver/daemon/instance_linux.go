package daemon

import (
	"context"
	"log/slog"

	"aether/driver/guestagent"
	"aether/guest/pid1"
	"aether/network"
	"aether/sandbox"
)

// Workload is a sandbox that its daemon can pause.
type Workload interface {
	guestagent.Workload
	Pause(context.Context) error
	Resume(context.Context) error
	// Attached is its place on the network, nil for one without.
	Attached() *network.Attached
	// Settle has its programs find and believe its gateway, if it has one.
	Settle(ctx context.Context, dial pid1.Dial, log *slog.Logger) error
	// Written opens what the sandbox has written over its image; nil where this program
	// does not see that.
	Written() (*Written, error)
}

// Instance is a sandbox that can be paused, and whose files can be kept.
type Instance struct {
	*guestagent.Instance
	body   Workload
	driver string
	files  guestagent.FilesManifest
}

var (
	_ sandbox.Pauser        = (*Instance)(nil)
	_ sandbox.NetworkSetter = (*Instance)(nil)
	_ sandbox.NetworkLog    = (*Instance)(nil)
)

// Add makes an Instance of a sandbox that runs, of an image with this digest, and begins
// to watch over it.
func (h *Home) Add(driver string, spec sandbox.Spec, digest string, body Workload, dialer guestagent.Dialer) *Instance {
	i := &Instance{guestagent.New(driver, spec.ID, spec, body, dialer), body, driver, guestagent.FilesOf(driver, spec, digest)}
	h.Fleet.Add(i.Instance)
	return i
}

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
		if paused {
			return i.body.Pause(ctx)
		}
		return i.body.Resume(ctx)
	})
}

// SetNetwork implements sandbox.NetworkSetter.
func (i *Instance) SetNetwork(ctx context.Context, n sandbox.Network) error {
	if err := i.Alive(); err != nil {
		return err
	}
	return i.body.Attached().SetNetwork(ctx, n)
}

// NetworkDecisions implements sandbox.NetworkLog.
func (i *Instance) NetworkDecisions(ctx context.Context) ([]sandbox.NetworkDecision, int64, error) {
	return i.body.Attached().Decisions(ctx)
}
