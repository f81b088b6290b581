package cell

import (
	"log/slog"
	"path/filepath"
	"runtime"

	"aether/image"
	"aether/network"
	"aether/sandbox"
)

// Name is the system's canonical name.
const Name = "cell"

// Options say where the driver works.
type Options struct {
	// Images opens the store of root file systems, when first needed.
	Images func() (*image.Store, error)
	// RunDir holds locks and mount points of running programs. It is made when
	// first needed.
	RunDir string
	// DiskDir holds what cells write that want their writes on disk, by default in
	// RunDir. It is made when first needed.
	DiskDir string
	// SnapshotDir holds the contents of snapshots and the layers unpacked of them,
	// by default in DiskDir. It is made when first needed.
	SnapshotDir string
	// Ahead is how many warm cells (namespaces and cgroups, the slow part of a cell)
	// are kept ready for each image that a second cell is made of, and as many with a
	// device for each that a second cell of the egress mode is made of. Zero makes them
	// when they are wanted. With any, cells of root's in which nothing has run hold no
	// cgroups and no net namespace: it is for programs that have many.
	Ahead int
	// Threads is how many threads clone, by default one for each processor: one is enough
	// for who makes one cell.
	Threads int
	// Network is for cells of the egress and nat modes, which are refused without it.
	Network *network.Service
	// Logger is told what fails in the background, where no caller waits for an
	// answer: the making of warm cells, the removal of a cell that ended by itself.
	// Nil means slog.Default().
	Logger *slog.Logger
}

// Driver makes cells. It does nothing until it is asked for one.
type Driver struct {
	opts   Options
	engine engine
}

var _ sandbox.Driver = (*Driver)(nil)

// New makes the driver.
func New(opts Options) *Driver {
	if opts.DiskDir == "" {
		opts.DiskDir = filepath.Join(opts.RunDir, "disks")
	}
	if opts.SnapshotDir == "" {
		opts.SnapshotDir = filepath.Join(opts.DiskDir, "snapshots")
	}
	return &Driver{opts: opts}
}

// Info implements sandbox.Driver.
func (d *Driver) Info() sandbox.Info {
	return sandbox.Info{Name: Name, Boundary: sandbox.ProcessBoundary, Verbs: verbs(),
		Networks: sandbox.Networks{Egress: d.opts.Network != nil, Nat: d.opts.Network != nil, Host: true}}
}

// verbs are what cells can do. Registers are copied on amd64 only.
func verbs() sandbox.Verbs {
	if runtime.GOARCH != "amd64" {
		return sandbox.Verbs{Pause: true, Snapshot: sandbox.Filesystem, Restore: sandbox.Filesystem}
	}
	return sandbox.Verbs{Pause: true, Snapshot: sandbox.Checkpoint, Restore: sandbox.Checkpoint, Fork: sandbox.Live}
}
