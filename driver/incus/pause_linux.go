package incus

import (
	"context"
	"net/http"

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
	return i.SetPaused(true, func() error { return i.body.order(ctx, "freeze") })
}

// Resume implements sandbox.Pauser.
func (i *instance) Resume(ctx context.Context) error {
	return i.SetPaused(false, func() error { return i.body.order(ctx, "unfreeze") })
}

// order is carried out to its end, so that what is known of the state stays true.
func (b *body) order(ctx context.Context, action string) error {
	return explain(b.engine.api.finish(ctx, http.MethodPut, instancePath(b.name)+"/state", change{Action: action}))
}
