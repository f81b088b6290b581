package confine

import (
	"errors"
	"fmt"
	"os"

	"aether/internal/host/cgroup"
	"aether/internal/host/spawn"

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
	Group cgroup.Way
	// Meanwhile, if it is not nil, is called while the process is on its way, and before it
	// runs the program: for what is to be known by then, and would hold it up before. It is
	// called again if the process has to start anew.
	Meanwhile func()
}

// meanwhile has done what need not be waited for.
func (c Command) meanwhile() {
	if c.Meanwhile != nil {
		c.Meanwhile()
	}
}

func (c Command) size() int {
	return spawn.Size(c.Args) + spawn.Size(c.Env) + len(c.Path) + len(c.Dir) + 4*len(c.Groups) + 8<<10
}

// Exec starts a program in the cell and gives it, with its number inside, once
// the program runs.
func (c *Cell) Exec(command Command) (p *spawn.Process, inside int, err error) {
	if _, _, err := c.Identity().ToHost(command.UID, command.GID); err != nil {
		return nil, 0, err
	}
	release, err := c.host.use("exec")
	if err != nil {
		return nil, 0, err
	}
	defer release()
	if p, inside, err = c.execSoon(command); err != nil {
		return nil, 0, fmt.Errorf("confine: exec: %w", err)
	}
	c.prepare(command)
	return p, inside, nil
}

// execSoon starts a program by who stands by, if there is somebody and he can.
func (c *Cell) execSoon(command Command) (p *spawn.Process, inside int, err error) {
	if e := c.take(command); e != nil {
		var born bool
		if p, inside, born, err = e.exec(command, c.host.null); born {
			return p, inside, err
		}
	}
	return c.execAnew(command)
}

// execAnew starts a program with nothing made ahead.
func (c *Cell) execAnew(command Command) (p *spawn.Process, inside int, err error) {
	s, err := c.host.script(command.size())
	if err != nil {
		return nil, 0, err
	}
	tried := false
	err = c.withTarget(command.Group, func(t target) (err error) {
		tried = true
		p, inside, err = c.exec(s, t, command)
		return err
	})
	if !tried {
		err = errors.Join(err, s.Free())
	}
	return p, inside, err
}

func (c *Cell) exec(s script, t target, command Command) (*spawn.Process, int, error) {
	inside, err := s.enter(c, t, command)
	if err != nil {
		return nil, 0, errors.Join(err, s.Free())
	}
	if c.host.Identity.Single {
		spawn.Visibility.RLock()
		defer spawn.Visibility.RUnlock()
	}
	started, err := s.Start(0, -1)
	if err != nil {
		return nil, 0, errors.Join(err, s.Free())
	}
	command.meanwhile()
	p, err := started.Await()
	number := int(inside.Result())
	return p, number, errors.Join(s.locate(err), started.Done())
}

// enter appends everything from a fresh child of this program to the command,
// and gives the step that finds out its number inside.
//
// That child joins the cell's namespaces while nobody in the cell can see it,
// for a pid namespace is joined by one's children only. Its child is born in the
// cell, drops what is left, and executes.
func (s script) enter(c *Cell, t target, command Command) (inside spawn.Step, err error) {
	s.stdio(c.host, command)
	clock := s.openOffsets(c)
	s.enterCell(c, t, 0o022, clock)
	inside = s.session(command)
	s.ownNull(c.host, command)
	if err := s.lockIn(c, commandCredentials(c.host, command), command.Dir, 3); err != nil {
		return inside, err
	}
	s.part(partExecute)
	s.unmaskSignals()
	s.Call(unix.SYS_EXECVE, s.String(command.Path), s.Strings(command.Args), s.Strings(command.Env))
	return inside, nil
}

// enterCell appends the joining of the cell's namespaces by a fresh child of this
// program, and the birth of its own child in the cell, for which the steps that
// follow are. clock is what openOffsets gave.
func (s script) enterCell(c *Cell, t target, umask uintptr, clock *spawn.Step) {
	s.part(partEnter)
	// Inside, others see a process whose memory is still this program's.
	s.prctl(unix.PR_SET_DUMPABLE, 0)
	s.enterNamespaces(t)
	s.ownClock(c, clock)
	s.Call(unix.SYS_UMASK, umask)
	s.rlimits(c.config.Processes)
	s.emptyBounds()
	s.part(partBorn)
	// It takes the host's root to be born in a cgroup, so the identity is later.
	branch := s.Branch(t.group.Into)
	s.Exit()
	s.Land(branch)
	s.enterGroups(t)
}

// lockIn appends the loss of all rights, in a directory. Descriptors from first on
// must be closed.
func (s script) lockIn(c *Cell, who credentials, dir string, first uintptr) error {
	s.drop(who)
	s.part(partDirectory)
	s.chdir(dir)
	s.landlock(c.host.landlockIn(c.config), c.config.HostNetwork, first)
	return s.filter()
}

// drop appends the loss of capabilities and the change of identity.
func (s script) drop(who credentials) {
	if s.part(partCapabilities) {
		s.dropTo(who)
	} else {
		s.become(who)
	}
}

// session appends the beginning of a session, and gives the step that finds out
// the process's number.
func (s script) session(command Command) (inside spawn.Step) {
	s.part(partSession)
	inside = s.Call(unix.SYS_GETPID)
	s.closeFrom(3)
	s.Call(unix.SYS_SETSID)
	if command.Terminal {
		s.Call(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	}
	return inside
}

// stdio gives the process its standard descriptors. One that is among them here
// already is copied out of the way first.
func (s script) stdio(h *Host, command Command) {
	s.part(partFiles)
	var sources [3]spawn.Step
	files := []*os.File{command.Stdin, command.Stdout, command.Stderr}
	for i, file := range files {
		if file != nil && file.Fd() < 3 {
			sources[i] = s.Call(unix.SYS_FCNTL, file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		}
	}
	for i, file := range files {
		if file == nil {
			file = h.null
		}
		dup := s.Call(unix.SYS_DUP3, file.Fd(), uintptr(i), 0)
		if file.Fd() < 3 {
			sources[i].Into(dup, 0)
		}
	}
}
