package docker

import (
	"log/slog"

	"aether/image"
	"aether/network"
	"aether/sandbox"
)

// Name is the system's canonical name.
const Name = "docker"

// Options say where the driver works.
type Options struct {
	// Images opens the store of root file systems, when first needed.
	Images func() (*image.Store, error)
	// RunDir holds the locks by which the containers of dead programs are known.
	// It is made when first needed.
	RunDir string
	// Host is the daemon's socket, as unix:///path. Empty means what the variable
	// DOCKER_HOST says, and else Docker's own default.
	Host string
	// Runtime is an OCI runtime that the daemon knows by this name, as runsc. Empty
	// means the daemon's default. The boundary claimed is a process boundary with
	// any runtime: what a name stands for is the daemon's to say.
	Runtime string
	// Logger is told what fails in the background, where no caller waits for an
	// answer. Nil means slog.Default().
	Logger *slog.Logger
	// Network is for sandboxes of the egress mode, which are refused without it.
	Network *network.Service
}

// Driver makes sandboxes with a Docker Engine. It does nothing until it is asked
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
	filtered := d.opts.Network != nil && d.opts.Runtime == ""
	return sandbox.Info{Name: Name, Boundary: sandbox.ProcessBoundary,
		Verbs:    sandbox.Verbs{Pause: true, Snapshot: sandbox.Filesystem, Restore: sandbox.Filesystem},
		Networks: sandbox.Networks{Egress: filtered, Nat: filtered, Host: true}}
}
