package vmm

import (
	"path/filepath"

	"aether/image"
	"aether/image/kernel"
	"aether/sandbox"
)

// Options say where a driver works.
type Options struct {
	// Images opens the store of root file systems, when first needed.
	Images func() (*image.Store, error)
	// Guest finds the program that is the init of machines, when first needed.
	Guest func() (string, error)
	// StateDir keeps disks, unpacked kernels and the directories of machines: one
	// file system, so that files can be linked. It is made when first needed.
	StateDir string
	// RunDir holds the locks of running programs. It is made when first needed.
	RunDir string
	// Kernel says where kernels are; what Install fetches is in StateDir unless
	// it says otherwise.
	Kernel kernel.Places
	// Program is the monitor to run; empty means the one in PATH.
	Program string
}

// Driver makes machines. It does nothing until it is asked for one.
type Driver struct {
	system System
	opts   Options
	engine engine
}

var _ sandbox.Driver = (*Driver)(nil)

// New makes the driver of a system.
func New(system System, opts Options) *Driver {
	if opts.Kernel.Installed == "" {
		opts.Kernel.Installed = filepath.Join(opts.StateDir, "kernels")
	}
	return &Driver{system: system, opts: opts}
}

// Info implements sandbox.Driver.
func (d *Driver) Info() sandbox.Info {
	return sandbox.Info{Name: d.system.Name, Boundary: sandbox.HardwareBoundary,
		Verbs: sandbox.Verbs{Pause: true, Snapshot: sandbox.Checkpoint, Restore: sandbox.Checkpoint, Fork: sandbox.Checkpoint}}
}
