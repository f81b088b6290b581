package gvisor

import (
	"context"

	"aether/image"
	"aether/sandbox"
)

var _ sandbox.ImageIdentifier = (*Driver)(nil)

// ImageIdentity implements sandbox.ImageIdentifier.
func (d *Driver) ImageIdentity(ctx context.Context, reference string) (string, error) {
	return image.IdentityIn(ctx, Name, d.opts.Images, reference)
}
