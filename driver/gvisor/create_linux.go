package gvisor

import (
	"context"

	"aether/driver/launched"
	"aether/sandbox"
)

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	made, err := d.Driver.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return d.instance(made.(*launched.Instance), made.ID()), nil
}
