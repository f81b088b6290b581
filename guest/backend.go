package guest

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"

	"aether/sandbox"
)

// Backend is how the service reaches the sandbox that it serves. Its methods
// may be called by many at once.
type Backend interface {
	// Start starts one process. The files of the Command stay the caller's.
	// The context bounds the starting only. Errors: NotFound and Denied for a
	// program that cannot be run, with the system's error kept.
	Start(context.Context, Command) (Process, error)
	// OpenPTY makes a terminal of the sandbox's own. The master does not block.
	OpenPTY() (master, slave *os.File, err error)
	// Root opens the sandbox's root as its processes see it; O_PATH is enough.
	// The service asks once and closes it.
	Root() (*os.File, error)
	// HostID translates ids of the sandbox to this process's. Errors: Invalid
	// for ids that the sandbox does not have.
	HostID(uid, gid uint32) (hostUID, hostGID int, err error)
	// GuestID is the inverse, for showing owners. Ids that the sandbox does not
	// have are the kernel's overflow ids, 65534.
	GuestID(hostUID, hostGID uint32) (uid, gid uint32)
	// Connect connects to a port of the sandbox's own loopback. Errors: Unavailable if
	// nothing listens there.
	Connect(ctx context.Context, port uint16) (net.Conn, error)
	// Stats says what the sandbox uses.
	Stats(context.Context) (sandbox.Stats, error)
}

// Command is a process to be started. Ids and paths are the sandbox's.
type Command struct {
	Path string   // absolute
	Args []string // with the program's name first
	Env  []string
	Dir  string

	UID, GID uint32
	Groups   []uint32

	// Stdin, Stdout and Stderr are the process's ends; a nil one is /dev/null.
	Stdin, Stdout, Stderr *os.File
	// TTY, if set, becomes the controlling terminal and all three of them.
	TTY *os.File
	// KillTree says that Process.Kill will be needed, so that a Backend may
	// arrange for it only where it is.
	KillTree bool
}

// Process is one process that was started.
type Process interface {
	// Pid is its id as the sandbox sees it.
	Pid() int
	// Signal sends a signal to this process alone. Errors: NotFound once it has
	// ended.
	Signal(syscall.Signal) error
	// Kill ends everything that it started, daemons included.
	Kill() error
	// Wait waits for its end. It is called once.
	Wait() (Status, error)
}

// Resized is what a Process has whose kernel may tell nobody that a terminal has a
// new size.
type Resized interface {
	// Resized tells the processes on its terminal, if nobody else does.
	Resized() error
}

// Status is how a process ended.
type Status struct {
	// Code is the exit code; it means nothing if Signal is set.
	Code int
	// Signal is what ended the process, or zero.
	Signal syscall.Signal
	// OutOfMemory says that the kernel killed it for the sandbox's memory limit.
	OutOfMemory bool
}

// NoListener is the error of Connect where nothing listens.
func NoListener(port uint16, err error) error {
	return &sandbox.Error{Class: sandbox.Unavailable, Field: "port", Reason: fmt.Sprintf("nothing listens at port %d of the sandbox", port), Retry: true, Err: err}
}
