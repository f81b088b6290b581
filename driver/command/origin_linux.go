package command

import (
	"context"

	"aether/driver/guestagent"
	"aether/network"
	"aether/sandbox"
)

// Origin is what a sandbox goes on from that has lived before.
type Origin struct {
	// Digest is what that of the image was.
	Digest string
	// Shown are files of the host that the program reads, as Stage.Shown.
	Shown []string
	// Command, if set, is what to run in place of System.Command. It brings the guest
	// service back, which knows its settings, unless Fresh is set.
	Command func(Stage, sandbox.Spec) (Command, error)
	// Fresh says that only files go on: the guest service begins anew.
	Fresh bool
	// Authority is the key of its gateway's, or nil.
	Authority network.AuthorityKey
	// AnyImage takes the image as it is now, whatever its digest was.
	AnyImage bool
}

// check refuses an image that is not any more what it was. Errors: Conflict.
func (o *Origin) check(ref, digest string) error {
	if o == nil || o.AnyImage {
		return nil
	}
	return guestagent.SameImage(ref, o.Digest, digest)
}

// GoOn makes a sandbox that goes on from an origin. Its Spec names the image that
// it was made of.
func (d *Driver) GoOn(ctx context.Context, spec sandbox.Spec, from Origin) (*Instance, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	e, err := d.open()
	if err != nil {
		return nil, err
	}
	i, err := e.resolve(ctx, spec, &from)
	if err != nil {
		return nil, explain(ctx, err)
	}
	return i, nil
}
