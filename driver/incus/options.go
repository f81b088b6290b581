package incus

import (
	"log/slog"

	"aether/image"
	"aether/network"
	"aether/sandbox"
)

// Name is the system's canonical name.
const Name = "incus"

// Options say where the driver works.
type Options struct {
	// Images opens the store of root file systems, when first needed.
	Images func() (*image.Store, error)
	// RunDir holds the locks by which the containers of dead programs are known.
	// It is made when first needed.
	RunDir string
	// Socket is the daemon's. Empty means what the variables INCUS_SOCKET and
	// INCUS_DIR say, and else where Incus has it by default.
	Socket string
	// Pool is the storage pool for the roots of sandboxes. Empty means that of the
	// profile "default", and else the only one there is.
	Pool string
	// Logger is told what fails in the background, where no caller waits for an
	// answer. Nil means slog.Default().
	Logger *slog.Logger
	// Network is for sandboxes of the egress mode, which are refused without it.
	Network *network.Service
}

// Driver makes sandboxes with an Incus daemon. It does nothing until it is asked
// for one.
type Driver struct {
	opts   Options
	engine engine
}

var _ sandbox.Driver = (*Driver)(nil)

// New makes the driver.
func New(opts Options) *Driver { return &Driver{opts: opts} }

// Info implements sandbox.Driver.
func (d *Driver) Info() sandbox.Info {
	return sandbox.Info{Name: Name, Boundary: sandbox.ProcessBoundary,
		Verbs:    sandbox.Verbs{Pause: true, Snapshot: sandbox.Filesystem, Restore: sandbox.Filesystem},
		Networks: sandbox.Networks{Egress: d.opts.Network != nil, Nat: d.opts.Network != nil}}
}
