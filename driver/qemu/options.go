package qemu

import (
	"path/filepath"

	"aether/image"
	"aether/image/kernel"
	"aether/sandbox"
)

// Name is the system's canonical name.
const Name = "qemu-kvm"

// verbs are what machines can do.
var verbs = sandbox.Verbs{Pause: true, Snapshot: sandbox.Checkpoint, Restore: sandbox.Checkpoint, Fork: sandbox.Checkpoint}

// Options say where the driver works.
type Options struct {
	// Images opens the store of root file systems, when first needed.
	Images func() (*image.Store, error)
	// Guest finds the program that is the init of machines, when first needed.
	Guest func() (string, error)
	// StateDir keeps disks, unpacked kernels and templates. It is made when first needed.
	StateDir string
	// RunDir holds the locks of running programs. It is made when first needed.
	RunDir string
	// Kernel says where kernels are; what Install fetches is in StateDir unless
	// it says otherwise.
	Kernel kernel.Places
	// Program is the QEMU to run; empty means the one in PATH.
	Program string
	// Emulate does without KVM also where it works.
	Emulate bool
	// Cold boots every machine by itself, instead of starting it from a template.
	Cold bool
}

// Driver makes machines. It does nothing until it is asked for one.
type Driver struct {
	opts   Options
	engine engine
}

var _ sandbox.Driver = (*Driver)(nil)

// New makes the driver.
func New(opts Options) *Driver {
	if opts.Kernel.Installed == "" {
		opts.Kernel.Installed = filepath.Join(opts.StateDir, "kernels")
	}
	return &Driver{opts: opts}
}
