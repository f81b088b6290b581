package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
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

	// What follows need not be known of a Blank.

	Hostname string
	// Upper bounds what the cell may write, in bytes of memory.
	Upper int64
	// Processes bounds them by a resource limit; 0 leaves that to the cgroup.
	Processes int64
}

// Cell is a living set of namespaces with its PID 1.
type Cell struct {
	host      *Host
	config    Config
	init      *spawn.Process
	namespace uintptr // flags of what a process joins

	mu      sync.Mutex
	script  *spawn.Script // of PID 1, until it has left it
	started spawn.Started
}

// Boot makes a cell of which nothing was known before.
func (b *Base) Boot(config Config) (*Cell, error) {
	blank, err := b.Blank(config)
	if err != nil {
		return nil, err
	}
	return blank.Boot(config.Hostname, config.Upper, config.Processes)
}

// Boot makes a cell of the blank, which is used up by it. It returns when the
// root file system stands; PID 1 has yet to become the program that only reaps.
func (b *Blank) Boot(hostname string, upper, processes int64) (*Cell, error) {
	h := b.base.host
	b.config.Hostname, b.config.Upper, b.config.Processes = hostname, upper, processes
	b.finish()
	c := &Cell{host: h, config: b.config, namespace: joined(b.config), init: b.init, script: b.script.Script, started: b.started}
	if err := b.script.Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("confine: boot: %w", err), b.Discard())
	}
	b.claimed.Set()
	phase := booted
	if h.Identity.Single {
		// Everything of an ordinary user has one id: no command may be beside
		// PID 1 while that still shares this program's memory.
		phase = spawn.Gone
	}
	if err := b.started.Reached(phase); err != nil {
		return nil, errors.Join(fmt.Errorf("confine: boot: %w", err), c.end())
	}
	return c, nil
}

// finish writes the rest of the script, which the blank is waiting for.
func (b *Blank) finish() {
	s, name := b.script, b.config.Hostname
	s.root(b.base.tree, b.base.host.masks, b.config.Upper)
	s.attachMounts(b.mounts)
	s.part(partInit)
	s.Call(unix.SYS_SETHOSTNAME, s.String(name), uintptr(len(name)))
	s.Announce(booted, spareFd)
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

// end is for a cell that nobody has seen yet.
func (c *Cell) end() error {
	if err := c.Kill(); err != nil {
		return err
	}
	_, err := c.Wait()
	return err
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

// Wait waits for the end of the cell: PID 1 and everything in it.
func (c *Cell) Wait() (spawn.Status, error) {
	status, err := c.init.Wait()
	return status, errors.Join(err, c.settle())
}

// settle frees PID 1's script once PID 1 has left it.
func (c *Cell) settle() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.script == nil || !c.started.Released() {
		return nil
	}
	s := c.script
	c.script = nil
	return s.Free()
}

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
