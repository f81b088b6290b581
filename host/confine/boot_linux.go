package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"aether/host/cgroup"
	"aether/host/spawn"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// Config is what a cell is to be.
type Config struct {
	// Group is where the cell is accounted and limited.
	Group cgroup.Attach
	// HostNetwork leaves the cell on the host's network.
	HostNetwork bool
	// Mounts are shown inside besides the image.
	Mounts []Mount
	// Upper bounds what the cell may write, in bytes of memory.
	Upper int64
	// Disk is a directory that MakeDisk prepared. The cell's writes go there
	// instead, unbounded.
	Disk string

	// What follows need not be known of a Blank.

	Hostname string
	// Processes bounds them by a resource limit; 0 leaves that to the cgroup.
	Processes int64
}

// Cell is a living set of namespaces with its PID 1.
type Cell struct {
	host      *Host
	config    Config
	init      *spawn.Process
	namespace uintptr // flags of what a process joins
}

// Boot makes a cell of which nothing was known before.
func (b *Base) Boot(config Config) (*Cell, error) {
	blank, err := b.Blank(config)
	if err != nil {
		return nil, err
	}
	return blank.Boot(config.Hostname, config.Processes)
}

// Boot makes a cell of the blank, which is used up by it. It returns when PID 1
// has become the program that only reaps: before that nobody may be beside it,
// for it shares this program's memory, and its group may have no memory limit,
// for the out-of-memory killer would take this program for a part of it.
func (b *Blank) Boot(hostname string, processes int64) (*Cell, error) {
	b.config.Hostname, b.config.Processes = hostname, processes
	b.finish()
	if err := b.script.Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("confine: boot: %w", err), b.Discard())
	}
	b.claimed.Set()
	if err := b.started.Left(); err != nil {
		return nil, errors.Join(fmt.Errorf("confine: boot: %w", err), b.Discard())
	}
	c := &Cell{host: b.base.host, config: b.config, init: b.init, namespace: joined(b.config)}
	return c, b.script.Free()
}

// finish writes the rest of the script, which the blank is waiting for.
func (b *Blank) finish() {
	s, name := b.script, b.config.Hostname
	s.part(partInit)
	s.Call(unix.SYS_SETHOSTNAME, s.String(name), uintptr(len(name)))
	s.becomeInit()
}

// joined are the namespaces that a process of the cell joins.
func joined(config Config) uintptr {
	flags := uintptr(ownNamespaces | unix.CLONE_NEWCGROUP)
	if !config.HostNetwork {
		flags |= unix.CLONE_NEWNET
	}
	return flags
}

// becomeInit appends the end of PID 1's script. It stays the cell's root, in
// name only: a change of identity would disarm its parent-death signal for a
// moment, and this program may be killed at any.
func (s script) becomeInit() {
	s.Call(unix.SYS_SETSID)
	s.reapOrphans()
	s.dropTo(credentials{single: true})
	s.executeInit()
}

// reapOrphans ignores SIGCHLD, which survives the execution of PID 1's program
// and has the kernel reap every orphan by itself.
func (s script) reapOrphans() {
	const ignore = 1 // SIG_IGN
	action, mem := s.Bytes(32)
	binary.LittleEndian.PutUint64(mem, ignore)
	s.Call(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), action, 0, 8)
}

// Pid is PID 1's number outside.
func (c *Cell) Pid() int { return c.init.Pid() }

// Wait waits for the end of the cell: PID 1 and everything in it. Commands that
// were started from outside must be waited for too, or it does not end.
func (c *Cell) Wait() (spawn.Status, error) { return c.init.Wait() }

// Kill ends the cell. The kernel kills every process of a pid namespace with
// its PID 1, which is reaped only when all are gone.
func (c *Cell) Kill() error {
	if err := c.init.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("confine: kill: %w", err)
	}
	return nil
}

// Root opens the cell's root directory, as its processes see it.
func (c *Cell) Root() (*os.File, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/root", c.Pid()), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		// The number may have become another process's if the cell has ended,
		// and only then: PID 1 is reaped by Wait alone.
		err = c.init.Signal(0)
	}
	if err != nil {
		return nil, &sandbox.Error{Class: sandbox.NotFound, Op: "confine: open the cell's root", Err: err}
	}
	return os.NewFile(uintptr(fd), "/"), nil
}
