package cell

import (
	"context"
	"fmt"

	"aether/sandbox"
)

var _ sandbox.Collector = (*Driver)(nil)

// Collect implements sandbox.Collector: what cells keep are the images of all drivers.
func (d *Driver) Collect(ctx context.Context, need sandbox.Need) ([]sandbox.Collected, error) {
	images, err := d.opts.Images()
	if err != nil {
		return nil, fmt.Errorf("cell: %w", err)
	}
	gone, err := images.Collect(ctx, need)
	if err != nil {
		return gone, fmt.Errorf("cell: %w", err)
	}
	return gone, nil
}
