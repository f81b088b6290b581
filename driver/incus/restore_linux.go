package incus

import (
	"context"

	"aether/sandbox"
)

var _ sandbox.Restorer = (*Driver)(nil)

// RestoreFidelity implements sandbox.Restorer.
func (d *Driver) RestoreFidelity() sandbox.Fidelity { return sandbox.Filesystem }

// Restore implements sandbox.Restorer.
func (d *Driver) Restore(ctx context.Context, dir string, give sandbox.Fidelity, spec sandbox.Spec) (sandbox.Instance, error) {
	return d.engine.Restore(ctx, dir, give, spec, d.making())
}
