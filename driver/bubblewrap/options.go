package bubblewrap

import (
	"aether/image"
	"aether/sandbox"
)

// Name is the system's canonical name.
const Name = "bubblewrap"

// Options say where the driver works.
type Options struct {
	// Images opens the store of root file systems, when first needed.
	Images func() (*image.Store, error)
	// RunDir holds locks and the mount point of running programs. It is made when
	// first needed, and others must be able to pass through it.
	RunDir string
}

// Driver makes sandboxes with bwrap. It does nothing until it is asked for one.
type Driver struct {
	opts   Options
	engine engine
}

var _ sandbox.Driver = (*Driver)(nil)

// New makes the driver.
func New(opts Options) *Driver { return &Driver{opts: opts} }

// Info implements sandbox.Driver.
func (d *Driver) Info() sandbox.Info {
	return sandbox.Info{Name: Name, Boundary: sandbox.ProcessBoundary, Verbs: sandbox.Verbs{Pause: true}}
}
