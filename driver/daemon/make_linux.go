package daemon

import (
	"context"
	"fmt"

	"aether/image"
	"aether/sandbox"
)

// Making is how a driver makes one sandbox, by steps that all have.
type Making struct {
	Driver string
	// Open gets the engine ready, with the home.
	Open func(context.Context) error
	// Accepts refuses what cannot be enforced.
	Accepts func(sandbox.Spec) error
	// Ping wants the daemon to be there still.
	Ping func(context.Context) error
	// Create makes the sandbox; a failure leaves nothing.
	Create func(context.Context, sandbox.Spec, image.Root) (*Instance, error)
	// Explain gives a failure of the daemon's a class.
	Explain func(error) error
	// over, if set, refuses an image that is not any more what it was.
	over func(digest string) error
}

// Make makes a sandbox within BootTime.
func (h *Home) Make(ctx context.Context, spec sandbox.Spec, m Making) (sandbox.Instance, error) {
	instance, err := h.make(ctx, spec, m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Driver, m.Explain(err))
	}
	return instance, nil
}

func (h *Home) make(ctx context.Context, spec sandbox.Spec, m Making) (*Instance, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, BootTime)
	defer cancel()
	if err := m.Open(ctx); err != nil {
		return nil, err
	}
	if err := m.Accepts(spec); err != nil {
		return nil, err
	}
	root, err := h.Images.Resolve(ctx, spec.Image, nil)
	if err != nil {
		return nil, err
	}
	if m.over != nil {
		if err := m.over(root.Digest); err != nil {
			return nil, err
		}
	}
	if err := m.Ping(ctx); err != nil {
		return nil, err
	}
	leave, err := h.Fleet.Enter(m.Driver)
	if err != nil {
		return nil, err
	}
	defer leave()
	return m.Create(ctx, spec, root)
}
