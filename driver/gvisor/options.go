package gvisor

import (
	"log/slog"

	"aether/driver/command"
	"aether/image"
	"aether/network"
	"aether/sandbox"
)

// Name is the driver's.
const Name = "gvisor"

// Platform is how gVisor runs the code of a sandbox.
type Platform string

const (
	// Systrap works on any host, also without virtualization.
	Systrap Platform = "systrap"
	// KVM needs hardware virtualization.
	KVM Platform = "kvm"
)

// Options say how and where the driver works.
type Options struct {
	// Images opens the store of root file systems, when first needed.
	Images func() (*image.Store, error)
	// RunDir holds locks of running programs.
	RunDir string
	// StateDir holds the memory of sandboxes while they are being forked.
	StateDir string
	// Network is for sandboxes of the egress mode, which are refused without it.
	Network *network.Service
	// Platform is Systrap if empty.
	Platform Platform
	// Logger is told what fails in the background, where no caller waits for an
	// answer. Nil means slog.Default().
	Logger *slog.Logger
}

// Driver makes sandboxes. It does nothing until it is asked for one.
type Driver struct {
	*command.Driver
	opts Options
}

var _ sandbox.Driver = (*Driver)(nil)

// New makes the driver.
func New(opts Options) *Driver {
	if opts.Platform == "" {
		opts.Platform = Systrap
	}
	return &Driver{command.New(system(opts.Platform), command.Options{Images: opts.Images, RunDir: opts.RunDir, Logger: opts.Logger, Network: opts.Network}), opts}
}

// Info implements sandbox.Driver.
func (d *Driver) Info() sandbox.Info {
	info := d.Driver.Info()
	info.Verbs = sandbox.Verbs{Pause: true, Snapshot: sandbox.Checkpoint, Restore: sandbox.Checkpoint, Fork: sandbox.Checkpoint}
	return info
}
