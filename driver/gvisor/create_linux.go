package gvisor

import (
	"context"

	"aether/driver/command"
	"aether/sandbox"
)

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	made, err := d.Driver.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return d.instance(made.(*command.Instance), made.ID()), nil
}
