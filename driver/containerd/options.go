package containerd

import (
	"log/slog"

	"aether/image"
	"aether/network"
	"aether/sandbox"
)

// Names of the systems that containerd makes, by its shims.
const (
	Name     = "containerd"
	KataName = "kata"
)

// Shims by the names that containerd knows them by.
const (
	RuncShim  = "io.containerd.runc.v2"
	RunscShim = "io.containerd.runsc.v1" // gVisor's
	KataShim  = "io.containerd.kata.v2"
)

// boundaries are what the shims give. Of one that is not known, the least is
// claimed.
var boundaries = map[string]sandbox.Boundary{RunscShim: sandbox.KernelBoundary, KataShim: sandbox.HardwareBoundary}

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
	// Shim runs the containers. Empty is RuncShim.
	Shim string
	// Logger is told what fails in the background, where no caller waits for an
	// answer. Nil means slog.Default().
	Logger *slog.Logger
	// Network is for sandboxes of the egress mode, which are refused without it.
	Network *network.Service
}

func (o Options) shim() string {
	if o.Shim == "" {
		return RuncShim
	}
	return o.Shim
}

// name is the canonical name of the system that a shim makes of containerd.
func (o Options) name() string {
	if o.shim() == KataShim {
		return KataName
	}
	return Name
}

func (o Options) boundary() sandbox.Boundary {
	return max(boundaries[o.shim()], sandbox.ProcessBoundary)
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
	filtered := d.opts.Network != nil && d.opts.shim() == RuncShim
	return sandbox.Info{Name: d.opts.name(), Boundary: d.opts.boundary(),
		Verbs:    sandbox.Verbs{Pause: true, Snapshot: sandbox.Filesystem, Restore: sandbox.Filesystem},
		Networks: sandbox.Networks{Egress: filtered, Nat: filtered, Host: d.opts.boundary() < sandbox.HardwareBoundary}}
}
