package vmm

import (
	"context"
	"fmt"

	"aether/sandbox"
)

var _ sandbox.ImageIdentifier = (*Driver)(nil)

// ImageIdentity implements sandbox.ImageIdentifier.
func (d *Driver) ImageIdentity(ctx context.Context, image string) (string, error) {
	images, err := d.opts.Images()
	if err != nil {
		return "", fmt.Errorf("%s: %w", d.system.Name, err)
	}
	identity, err := images.Identity(ctx, image)
	if err != nil {
		return "", fmt.Errorf("%s: %w", d.system.Name, err)
	}
	return identity, nil
}
