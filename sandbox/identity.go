package sandbox

import "context"

// ImageIdentifier is a Driver that can say what an image is made of now, for those who
// keep what was made of one and want to know whether it would come out the same.
type ImageIdentifier interface {
	// ImageIdentity gives the same text as long as sandboxes of the image have the same
	// files, and another when they have others. It is empty where nobody could tell. An
	// image that is not here is fetched, as Create does. Errors: those of Create for the
	// image.
	ImageIdentity(ctx context.Context, image string) (string, error)
}
