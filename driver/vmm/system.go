package vmm

import (
	"context"
	"net"
	"os"
	"time"

	"aether/sandbox"
)

// Names in a machine's directory, in which its monitor works, and of the descriptors
// that a program inherits.
const (
	Kernel    = "kernel"    // an uncompressed ELF file, there for Boot
	Initramfs = "initramfs" // there for Boot
	Disk      = "disk"      // the root file system, read-only
	Socket    = "api"       // the monitor listens here
	Vsock     = "vsock"     // the monitor's end of the guest's vsock
	Saved     = "saved"     // the directory of a machine's state, for Save and Load
	Port      = "port"      // the other end of the guest's serial port PortName, inherited
	KVM       = "kvm"       // the open device, inherited by a program that is handed all
	Memory    = "memory"    // of a template and of what goes on from it, or of a machine that can be forked, inherited
)

// GuestCID is the number of every machine on its own vsock.
const GuestCID = 3

// PortName is the virtio-serial port of the guest service, in machines that have no
// vsock.
const PortName = "aether"

// System is one monitor.
type System struct {
	// Name is the canonical name, and Program that of its file.
	Name, Program string
	// Remedy is how one comes by the program.
	Remedy string
	// Version reads what the program says when it is asked for its version.
	// Errors: Unavailable for another program, and for a version that is too old.
	Version func(said string) (string, error)
	// Modules are what the init of a machine needs of the kernel's.
	Modules []string
	// KernelArgs are the kernel's command line.
	KernelArgs string
	// MaxCPUs is how many processors a machine can have.
	MaxCPUs int
	// SavedFiles are the files in Saved that Save makes and Load needs.
	SavedFiles []string
	// CutsOff says that Save ends the connections to the guest that are open.
	CutsOff bool
	// Arguments are those of the program, which listens on Socket.
	Arguments []string
	// Environment is what a program that is Handed knows beside what all monitors do.
	Environment []string
	// Inherit, if set, makes the arguments of a program that is given open
	// descriptors instead of a directory. Then Arguments, Jail and CutsOff mean nothing, nor
	// do KernelArgs unless it is Handed, and there is one of SavedFiles.
	Inherit func(Hardware, Descriptors) []string
	// Handed says that the program, which has Inherit, is started with Socket, KVM and, in the
	// place of Port, Vsock alone, over which it is handed the connections to its guest's vsock.
	// All else is handed to it by its Monitor, which is a Booter and a Forker. It is started in a
	// jail, where it finds nothing else, and may be so before there is a machine for it.
	Handed bool
	// Layered says that machines can have a writable disk. It needs Handed.
	Layered bool
	// Find, if set, finds the program where it is not in PATH.
	Find func() (string, error)
	// Template says that machines go on from one that was booted before. It needs
	// Inherit, and a disk whose driver is the last of Modules.
	Template bool
	// Emulates says when machines are run without KVM.
	Emulates Emulation
	// AnyVersion says that machines are made with the program whatever its version
	// is, which a busy host may take long to say. A probe still names it.
	AnyVersion bool
	// Jail, if set, finds a program that confines this one better than a driver
	// can; nil if there is none, and then missing says what it costs.
	Jail func(program string) (jail Jail, missing *sandbox.Gap)
	// Monitor speaks to the program over connections to Socket.
	Monitor func(dial Dial) Monitor
	// MayPause, if set, says why machines of this version cannot be paused.
	MayPause func(version string) error
}

// Emulation says when machines are run without KVM. That is a kernel boundary, and a
// state that was saved so goes on so.
type Emulation int

// A system emulates never, unless it says otherwise.
const (
	EmulatesNever Emulation = iota
	EmulatesWithoutKVM
	EmulatesAlways
)

// Descriptors are the numbers of the open files that a program inherits. Socket and
// Port are there always, Kernel and Initramfs for a machine that is booted, Disk for
// all but a template. Of a template, Memory is to be written to; of what goes on
// from it, a file of which changes are the machine's own.
type Descriptors map[string]int

// Dial makes a connection.
type Dial func(context.Context) (net.Conn, error)

// Jail starts a monitor in a root directory of its own, as a user, below base.
type Jail interface {
	// Root is where the monitor's directory will be.
	Root(base string) string
	// Command is the command line that becomes the monitor.
	Command(base string, user, group uint32, arguments []string) []string
}

// Hardware is what a machine has of processors and memory.
type Hardware struct {
	MemoryMiB int64 `json:"memory_mib"`
	CPUs      int   `json:"cpus"`
	// Emulated is a machine without KVM.
	Emulated bool `json:"emulated,omitempty"`
}

// State is where a machine's state is saved and loaded.
type State struct {
	// File is what a program that inherits descriptors writes to or reads from; nil
	// means SavedFiles.
	File *os.File
	// WithoutMemory leaves out what is in Memory.
	WithoutMemory bool
	// Memory are the files of the memory, if a Forker made the state, or the first of them if it
	// was saved with Over.
	Memory []*os.File
	// Lent says that these files are not to be handed on when the machine is forked.
	Lent bool
	// Over leaves out what is in the first of the files that the machine's memory is in.
	Over bool
	// Root is the disk of the root file system, for a program that is handed it, and Longest
	// what the files have at most that it writes.
	Root    *os.File
	Longest int64
	// Pages is the pagemap of such a program's process, to save by.
	Pages *os.File
	// Disk are the files of a writable disk, the last of which is the machine's own.
	Disk []*os.File
}

// Booter is a Monitor of a program that is handed what its machine boots from.
type Booter interface {
	BootFrom(context.Context, Hardware, BootFiles) error
}

// BootFiles are those of one machine; Writable are the files of a writable disk, if it has one,
// the last of which is its own.
type BootFiles struct {
	KernelArgs                      string
	Root, Memory, Kernel, Initramfs *os.File
	Writable                        []*os.File
	// Longest is what the files have at most that it writes.
	Longest int64
}

// Forker is a Monitor that can have the memory of its machine be in files that nobody needs
// to change any more.
type Forker interface {
	// Fork writes the state of the machine without its memory, which is in the files of
	// before and in the layer then. The machine goes on, unless it is paused.
	Fork(context.Context, Copying) (Copied, error)
	// Flatten has the memory of a machine that was forked be in its first file and in the layer
	// alone, which is as for Fork. It gives what of the files is kept, as Copied says.
	Flatten(ctx context.Context, layer *os.File) ([]int, error)
}

// Copying is what a Forker is given: an empty file for the state, one as long as the memory
// for what has changed, and the pagemap of its process; and of a machine with a writable disk
// what it has written, opened for reading, and a file for what it writes from now on.
type Copying struct{ State, Layer, Pages, Frozen, Next *os.File }

// Copied is what a Forker says.
type Copied struct {
	// Kept are which of the memory's files, with the layer after them, it is in now.
	Kept []int
	// Pause is how long the machine stood still.
	Pause time.Duration
}

// Monitor tells one process what to do. Only one call is made at a time.
type Monitor interface {
	// Hello says that the process is what it should be.
	Hello(context.Context) error
	// Boot makes the machine and starts it. A program that inherits descriptors has
	// done so already, and is not told; one that is handed them has BootFrom.
	Boot(context.Context, Hardware, string) error
	Pause(context.Context) error
	Resume(context.Context) error
	// Save writes the state of a paused machine.
	Save(context.Context, State) error
	// Load makes the machine out of a state and lets it go on.
	Load(context.Context, State) error
	// Close gives up the connections.
	Close()
}
