package sandbox

import "context"

// Collector is a Driver that keeps files beyond the life of sandboxes which it can make
// or fetch anew: images, disks of machines. Several drivers may share what they keep.
type Collector interface {
	// Collect removes what is not needed and says what that was; in a dry run it says
	// what it would remove. Nothing is removed that a sandbox of another program may be
	// using. Errors: Conflict, with Retry, if another program does.
	Collect(context.Context, Need) ([]Collected, error)
}

// Need is what must stay.
type Need struct {
	// Images are those of all sandboxes, paused ones included, of templates and
	// snapshots.
	Images []string
	// Running says that sandboxes run, which may have files of an image that is another
	// by now under the same name.
	Running bool
	DryRun  bool
}

// Collected is something that was removed.
type Collected struct {
	// Kind is image, layer, disk, and so on.
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}
