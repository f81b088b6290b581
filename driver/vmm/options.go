package vmm

import (
	"context"
	"log/slog"
	"path/filepath"

	"aether/image"
	"aether/image/kernel"
	"aether/network"
	"aether/sandbox"
)

// Options say where a driver works.
type Options struct {
	// Images opens the store of root file systems, when first needed.
	Images func() (*image.Store, error)
	// Guest finds the program that is the init of machines, when first needed.
	Guest func() (string, error)
	// StateDir keeps disks, unpacked kernels, templates and the directories of
	// machines: one file system, so that files can be linked. It is made when first
	// needed.
	StateDir string
	// RunDir holds the locks of running programs. It is made when first needed.
	RunDir string
	// Kernel says where kernels are; what Install fetches is in StateDir unless
	// it says otherwise.
	Kernel kernel.Places
	// Program is the monitor to run; empty means the one in PATH.
	Program string
	// Cold boots every machine by itself, instead of starting it from a template.
	Cold bool
	// Network is for machines of the egress mode, which are refused without it.
	Network *network.Service
	// Logger is told what fails in the background, where no caller waits for an
	// answer. Nil means slog.Default().
	Logger *slog.Logger
}

// Driver makes machines. It does nothing until it is asked for one.
type Driver struct {
	system System
	opts   Options
	engine engine
}

var (
	_ sandbox.Driver   = (*Driver)(nil)
	_ kernel.Installer = (*Driver)(nil)
)

// New makes the driver of a system.
func New(system System, opts Options) *Driver {
	if opts.Kernel.Installed == "" {
		opts.Kernel.Installed = filepath.Join(opts.StateDir, "kernels")
	}
	return &Driver{system: system, opts: opts}
}

// boundary is between a guest and the host. Without KVM, the host sees the system
// calls of one confined process only, in which the guest's kernel runs.
func boundary(emulated bool) sandbox.Boundary {
	if emulated {
		return sandbox.KernelBoundary
	}
	return sandbox.HardwareBoundary
}

// InstallKernel implements kernel.Installer.
func (d *Driver) InstallKernel(ctx context.Context) (kernel.Kernel, error) {
	return kernel.Install(ctx, d.opts.Kernel.Installed)
}

// Info implements sandbox.Driver. A system that emulates where KVM does not work tries
// that at the first call, which takes some milliseconds, and two seconds on a host
// whose KVM hangs.
func (d *Driver) Info() sandbox.Info {
	return sandbox.Info{Name: d.system.Name, Boundary: boundary(d.system.emulated()),
		Verbs:    sandbox.Verbs{Pause: true, Snapshot: sandbox.Checkpoint, Restore: sandbox.Checkpoint, Fork: d.system.forkFidelity()},
		Networks: sandbox.Networks{Egress: d.opts.Network != nil}}
}

// forkFidelity is what forks carry over: through a file, unless the monitor shares memory.
func (s System) forkFidelity() sandbox.Fidelity {
	if s.Handed {
		return sandbox.Live
	}
	return sandbox.Checkpoint
}
