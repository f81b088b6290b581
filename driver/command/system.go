package command

import (
	"context"
	"log/slog"

	"aether/image"
	"aether/network"
	"aether/sandbox"
)

// System says how the program of one isolation system is used.
type System struct {
	// Name is the driver's, as in sandbox.Info.
	Name string
	// Boundary is what its sandboxes give; zero is a process boundary, which is what
	// programs make of namespaces and filters.
	Boundary sandbox.Boundary
	// Program is looked for in PATH; Install is the remedy where it is not there.
	Program, Install string
	// Find, if set, looks for the program elsewhere first; empty is not found.
	Find func() string
	// Seals says that the program goes on as a copy of itself in a sealed file of memory, so
	// that what it starts can never change it, and that it takes one that is there already.
	// All of its sandboxes then have one copy, which the engine makes.
	Seals bool
	// Needs, if set, says why this user or host cannot have such sandboxes, before
	// anything is tried.
	Needs func() error
	// Version asks the program at path.
	Version func(ctx context.Context, path string) (string, error)
	// Command is what to run.
	Command func(Stage, sandbox.Spec) (Command, error)
	// Plain says that the program needs no stage made ready for it: no configuration on it
	// and nothing to prepare. It is then started at once, and reads its configuration from
	// ConfigFd.
	Plain bool
	// Opaque says that the program is a kernel of its own, whose processes and
	// written files the host does not see: Stats are silent about them, and the
	// caller's mounts are left to the program, as Stage.Mounts.
	Opaque bool
	// Group, if set, is what the cgroup around the program has to hold, where that
	// differs from what the sandbox may have.
	Group func(sandbox.Limits) sandbox.Limits
	// OwnNetwork has the program started in a network namespace of its own, whose loopback
	// is up, which its sandbox is to have too: the program makes none. Only then can the
	// sandbox have the egress mode. Not so on the host's network.
	OwnNetwork bool
	// TakesDevice says that the program takes what it finds in that namespace for itself when
	// it starts, so that the device of a sandbox is made before. It is not Plain.
	TakesDevice bool
	// NetworkFile is where in Stage.Dir the program's Prepare keeps that namespace (bound
	// to a file), if the program itself goes on in another; empty if it stays.
	NetworkFile string
	// NoHostNetwork says why its sandboxes cannot have the host's network; empty if they
	// can.
	NoHostNetwork string
	// MinMemory is the least limit on memory with which the program and the guest
	// service can work.
	MinMemory int64
}

// Stage is where the parts of a sandbox are, as its program sees them.
type Stage struct {
	// Program is the system's own, at a path that is good for executing it.
	Program string
	// Dir is a small file system of the stage's own, for configuration and state.
	Dir string
	// Root is the root file system. Guest is the program to run inside. Shared is
	// an empty directory for /dev/shm, bounded together with what is written to
	// Root; if the System is Opaque, for what it keeps of written files.
	Root, Guest, Shared string
	// Shown are the files of Origin.Shown, for reading only.
	Shown []string
	// Mounts are those of the Spec, in their order, if the System is Opaque.
	Mounts []string
	// Single says that there is one id only: UserID inside, which is the caller's
	// and the root of the program's user namespace.
	Single bool
	// Group is a directory of the sandbox's cgroup, or empty where it has none.
	// What is made below it is removed with the sandbox.
	Group string
}

// Command is what to run on a stage.
type Command struct {
	Args []string
	Env  []string
	// Prepare are lines of shell that come first, with the stage's Dir as the
	// working directory. They are the driver's own text; whatever a caller may say
	// belongs into Config or Args.
	Prepare string
	// Config becomes the file ConfigFile in Dir.
	Config []byte
}

const (
	// ConfigFile is where Command.Config is, in Stage.Dir. OCI runtimes want that
	// name.
	ConfigFile = "config.json"
	// ConfigFd is where a Plain program has it.
	ConfigFd = 3
	// programFd is the copy of a program that Seals itself.
	programFd = 4
)

// UserID is the only id inside when an ordinary user runs sandboxes.
const UserID = 1000

// Options say where a driver works.
type Options struct {
	// Images opens the store of root file systems, when first needed.
	Images func() (*image.Store, error)
	// RunDir holds locks and the places to mount on of running programs. It is
	// made when first needed, and others must be able to pass through it.
	RunDir string
	// Logger is told what fails in the background, where no caller waits for an
	// answer. Nil means slog.Default().
	Logger *slog.Logger
	// Network is for sandboxes of the egress mode, which are refused without it.
	Network *network.Service
}

// Driver makes sandboxes with the program of a System. It does nothing until it
// is asked for one.
type Driver struct {
	system System
	opts   Options
	engine engine
}

var _ sandbox.Driver = (*Driver)(nil)

// New makes a driver.
func New(system System, opts Options) *Driver { return &Driver{system: system, opts: opts} }

// Info implements sandbox.Driver.
func (d *Driver) Info() sandbox.Info {
	filtered := d.system.OwnNetwork && d.opts.Network != nil
	return sandbox.Info{Name: d.system.Name, Boundary: d.system.boundary(),
		Verbs:    sandbox.Verbs{Pause: true, Snapshot: sandbox.Filesystem, Restore: sandbox.Filesystem},
		Networks: sandbox.Networks{Egress: filtered, Nat: filtered, Host: d.system.NoHostNetwork == ""}}
}

func (s System) boundary() sandbox.Boundary { return max(s.Boundary, sandbox.ProcessBoundary) }
