package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"aether/internal/host/cgroup"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// Config is what a cell is to be.
type Config struct {
	// Group is where the commands of the cell are accounted and limited.
	Group cgroup.Way
	// Init is where PID 1 is accounted, which does nothing but to be there; the zero value
	// means Group.
	Init cgroup.Way
	// HostNetwork leaves the cell on the host's network.
	HostNetwork bool
	// Mounts are shown inside besides the image.
	Mounts []Mount
	// Upper bounds what the cell may write, in bytes of memory.
	Upper int64
	// Disk is a directory that MakeDisk or MakeBoundedDisk prepared. The cell's
	// writes go there instead.
	Disk string

	// Ready keeps a process standing by for the next command.
	Ready bool

	// What follows need not be known of a WarmCell.

	Hostname string
	// Processes bounds them by a resource limit; 0 leaves that to the cgroup.
	Processes int64
}

// Cell is a living set of namespaces with its PID 1.
type Cell struct {
	host      *Host
	base      *Base
	identity  Identity
	freed     sync.Once
	config    Config
	init      *spawn.Process
	clock     time.Duration
	offsets   string // what a process writes to have that clock
	readiness readiness
	lease     lease
}

// Boot makes a cell of which nothing was known before.
func (b *Base) Boot(config Config) (*Cell, error) {
	warm, err := b.NewWarmCell(config)
	if err != nil {
		return nil, err
	}
	return warm.Boot(config.Hostname, config.Processes)
}

// Boot makes a cell of the warm cell, which is used up by it.
func (b *WarmCell) Boot(hostname string, processes int64) (*Cell, error) {
	c := b.cell
	var err error
	if processes != c.config.Processes {
		err = c.dismiss() // who stands by has other resource limits
		c.config.Processes = processes
	}
	if hostname != c.config.Hostname {
		c.config.Hostname = hostname
		err = errors.Join(err, c.rename(hostname))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("confine: boot: %w", err), b.Discard())
	}
	return c, nil
}

// rename gives the cell its host name.
func (c *Cell) rename(name string) (err error) {
	by := c.host.renameBy
	if c.host.Identity.Single {
		by = c.renameByChild
	}
	gone := c.init.Fd(func(pidfd int) { err = by(pidfd, name) })
	return errors.Join(gone, err)
}

// renameBy has this thread visit the cell's host name. It is this one and no
// spawner because waking another takes longer than all of it.
func (h *Host) renameBy(pidfd int, name string) error {
	runtime.LockOSThread()
	if err := unix.Setns(pidfd, unix.CLONE_NEWUTS); err != nil {
		runtime.UnlockOSThread()
		return os.NewSyscallError("setns", err)
	}
	err := os.NewSyscallError("sethostname", unix.Sethostname([]byte(name)))
	if back := unix.Setns(int(h.uts.Fd()), unix.CLONE_NEWUTS); back != nil {
		return errors.Join(err, os.NewSyscallError("setns", back)) // no other goroutine may have this thread
	}
	runtime.UnlockOSThread()
	return err
}

// renameByChild is for an ordinary user, who is root only in the cell's own user
// namespace, which no thread of a program with many can join.
func (c *Cell) renameByChild(pidfd int, name string) error {
	s, err := c.host.script(0)
	if err != nil {
		return err
	}
	s.Call(unix.SYS_SETNS, uintptr(pidfd), unix.CLONE_NEWUSER|unix.CLONE_NEWUTS)
	s.Call(unix.SYS_SETHOSTNAME, s.String(name), uintptr(len(name)))
	s.Exit()
	spawn.Visibility.RLock() // joining ends that this program is dumpable
	defer spawn.Visibility.RUnlock()
	started, err := s.Start(0, -1)
	if err != nil {
		return errors.Join(err, s.Free())
	}
	p, err := started.Await()
	if err == nil {
		_, err = p.Wait()
	}
	return errors.Join(err, s.Free())
}

// joined are the namespaces of PID 1 that a process of the cell joins.
func (c *Cell) joined() uintptr {
	flags := uintptr(ownNamespaces | unix.CLONE_NEWCGROUP)
	if !c.config.HostNetwork && !c.leased() {
		flags |= unix.CLONE_NEWNET
	}
	return flags
}

// becomeInit appends the end of PID 1's script. It stays the cell's root, in
// name only: a change of identity would disarm its parent-death signal for a
// moment, and this program may be killed at any.
func (s script) becomeInit(c *Cell) {
	s.keepRoot()
	s.Call(unix.SYS_SETSID)
	s.reapOrphans()
	s.dropTo(credentials{single: true})
	// The new memory starts as dumpable as the old, which an ordinary user's is
	// since mapSelf, and Boot may return before the kernel finds the program to be
	// unreadable.
	s.prctl(unix.PR_SET_DUMPABLE, 0)
	last := uintptr(rootFd)
	if c.leased() {
		last = otherFd
	}
	s.executeInit(last)
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

// Identity is how the cell's ids correspond to those of the host.
func (c *Cell) Identity() Identity { return c.identity }

// HostNetwork says that the cell is on the host's network.
func (c *Cell) HostNetwork() bool { return c.config.HostNetwork }

// Wait waits for the end of the cell: PID 1 and everything in it. Commands that
// were started from outside must be waited for too, or it does not end.
func (c *Cell) Wait() (spawn.Status, error) {
	status, err := c.init.Wait()
	err = errors.Join(err, c.endReadiness())
	spawn.Bury() // who brought the cell's commands in
	c.retireNetwork(err == nil)
	if err == nil {
		err = c.free()
	}
	return status, err
}

// OnEnd has fn called once, in a goroutine of its own, when PID 1 has ended. It is fn
// that calls Wait.
func (c *Cell) OnEnd(fn func()) { c.host.exits.Call(c.init, fn) }

// free gives the cell's ids back. Nothing of it may be left.
func (c *Cell) free() (err error) {
	if !c.identity.Single {
		c.freed.Do(func() { err = c.host.releaseIDs(c.identity) })
	}
	return err
}

// Kill ends the cell. The kernel kills every process of a pid namespace with
// its PID 1, which is reaped only when all are gone.
func (c *Cell) Kill() error {
	c.holdNetwork()
	if err := c.init.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("confine: kill: %w", err)
	}
	return c.endReadiness()
}
