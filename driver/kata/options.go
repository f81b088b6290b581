package kata

import (
	"aether/image"
	"aether/sandbox"
)

// Name is the system's canonical name.
const Name = "kata"

// Shims by the names that containerd knows them by.
const (
	KataShim = "io.containerd.kata.v2"
	RuncShim = "io.containerd.runc.v2"
)

// Options say where the driver works.
type Options struct {
	// Images opens the store of root file systems, when first needed.
	Images func() (*image.Store, error)
	// RunDir holds what is written inside, the pipes and the locks by which the
	// sandboxes of dead programs are known. It is made when first needed.
	RunDir string
	// Address is containerd's socket. Empty means what the variable
	// CONTAINERD_ADDRESS says, and else containerd's own default.
	Address string
	// Shim runs the containers. Empty is KataShim; RuncShim gives a process
	// boundary.
	Shim string
}

func (o Options) shim() string {
	if o.Shim == "" {
		return KataShim
	}
	return o.Shim
}

// boundary is what a shim gives. Of one that is not known, the least is claimed.
func (o Options) boundary() sandbox.Boundary {
	if o.shim() == KataShim {
		return sandbox.HardwareBoundary
	}
	return sandbox.ProcessBoundary
}

// Driver makes sandboxes with containerd. It does nothing until it is asked for
// one.
type Driver struct {
	opts   Options
	engine engine
}

var _ sandbox.Driver = (*Driver)(nil)

// New makes the driver.
func New(opts Options) *Driver { return &Driver{opts: opts} }

// Info implements sandbox.Driver.
func (d *Driver) Info() sandbox.Info {
	return sandbox.Info{Name: Name, Boundary: d.opts.boundary(), Verbs: sandbox.Verbs{Pause: true}}
}
