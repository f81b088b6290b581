package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"aether/host/cgroup"
	"aether/host/spawn"

	"golang.org/x/sys/unix"
)

// Command is a program to run in a cell.
type Command struct {
	Path string // as the cell sees it
	Args []string
	Env  []string
	Dir  string
	// UID, GID and Groups are ids of the cell.
	UID, GID uint32
	Groups   []uint32
	// Stdin, Stdout and Stderr are the process's own ends; nil is /dev/null.
	Stdin, Stdout, Stderr *os.File
	// Terminal makes standard input the controlling terminal.
	Terminal bool
	// Group is where the process is accounted; its files stay open.
	Group cgroup.Attach
}

func (c Command) size() int {
	return spawn.Size(c.Args) + spawn.Size(c.Env) + len(c.Path) + len(c.Dir) + 4*len(c.Groups) + 8<<10
}

// Exec starts a program in the cell and gives it, with its number inside, once
// the program runs.
func (c *Cell) Exec(command Command) (p *spawn.Process, inside int, err error) {
	if _, _, err := c.host.Identity.ToHost(command.UID, command.GID); err != nil {
		return nil, 0, err
	}
	s, err := c.host.script(command.size())
	if err != nil {
		return nil, 0, err
	}
	defer s.Free()
	gone := c.init.Fd(func(pidfd int) {
		p, inside, err = c.exec(s, pidfd, command)
	})
	if err = errors.Join(gone, err); err != nil {
		return nil, 0, fmt.Errorf("confine: exec: %w", err)
	}
	return p, inside, nil
}

func (c *Cell) exec(s script, pidfd int, command Command) (*spawn.Process, int, error) {
	inside, err := s.enter(c, pidfd, command)
	if err != nil {
		return nil, 0, err
	}
	if c.host.Identity.Single {
		c.host.one.Lock()
		defer c.host.one.Unlock()
	}
	started, err := c.start(s, pidfd, command.Group.Into)
	if err != nil {
		return nil, 0, err
	}
	p, err := started.Await()
	return p, int(inside.Result()), errors.Join(err, c.settle())
}

// start clones the process. Root's thread joins the pid namespace for its next
// child and comes back; an ordinary user's thread may not, so there the script
// itself joins all and branches.
func (c *Cell) start(s script, pidfd, group int) (started spawn.Started, err error) {
	if c.host.Identity.Single {
		return s.Start(0, group)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setns(pidfd, unix.CLONE_NEWPID); err != nil {
		return started, os.NewSyscallError("setns pid", err)
	}
	started, err = s.Start(0, group)
	if back := unix.Setns(int(c.host.pidns.Fd()), unix.CLONE_NEWPID); back != nil {
		// Children of this thread, whosever they are, would be born in a cell.
		panic(fmt.Sprintf("confine: a thread cannot leave a pid namespace: %v", back))
	}
	return started, err
}

// enter appends everything from a fresh child of this program to the command,
// and gives the step that finds out its number inside.
func (s script) enter(c *Cell, pidfd int, command Command) (spawn.Step, error) {
	h := c.host
	s.join(command.Group)
	s.stdio(h, command)
	inside := s.namespaces(c, pidfd)
	s.session(command)
	s.rlimits(c.config.Processes)
	who := credentials{uid: command.UID, gid: command.GID, groups: command.Groups, single: h.Identity.Single}
	if s.part(partCapabilities) {
		s.emptyBounds()
		s.dropTo(who)
	} else {
		s.become(who)
	}
	s.chdir(command.Dir)
	s.landlock(h.landlock, c.config.HostNetwork)
	if err := s.filter(); err != nil {
		return inside, err
	}
	s.part(partExecute)
	s.unmaskSignals()
	s.Call(unix.SYS_EXECVE, s.String(command.Path), s.Strings(command.Args), s.Strings(command.Env))
	return inside, nil
}

// namespaces appends the joining of the cell. From here on its other processes
// can see this one, whose memory is still this program's: hence undumpable.
func (s script) namespaces(c *Cell, pidfd int) (inside spawn.Step) {
	s.part(partEnter)
	s.prctl(unix.PR_SET_DUMPABLE, 0)
	if c.host.Identity.Single {
		s.Call(unix.SYS_SETNS, uintptr(pidfd), c.namespace)
		branch := s.Branch(0)
		s.Exit()
		s.Land(branch)
	} else {
		s.Call(unix.SYS_SETNS, uintptr(pidfd), c.namespace&^unix.CLONE_NEWPID)
	}
	inside = s.Call(unix.SYS_GETPID)
	s.closeFrom(3)
	return inside
}

func (s script) session(command Command) {
	s.part(partSession)
	s.Call(unix.SYS_SETSID)
	if command.Terminal {
		s.Call(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	}
	s.Call(unix.SYS_UMASK, 0o022)
}

// stdio gives the process its standard descriptors. All sources are above 2,
// which Open made sure of, so none is overwritten before it is used.
func (s script) stdio(h *Host, command Command) {
	s.part(partFiles)
	for fd, file := range []*os.File{command.Stdin, command.Stdout, command.Stderr} {
		if file == nil {
			file = h.null
		}
		s.Call(unix.SYS_DUP3, file.Fd(), uintptr(fd), 0)
	}
}
