package confine

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"aether/internal/host/cgroup"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// prejoined is a process that has joined a cell, but for its pid namespace, and
// given everything up, and waits for a command to bring in: all that takes
// longer than what is left. It serves one command and is invisible inside.
type prejoined struct {
	script  script
	who     credentials
	started spawn.Started
	socket  *os.File // standard descriptors are sent through it
	groups  int      // how many files of cgroups it holds
}

// Descriptors of a pre-joined process, besides selfFd.
const (
	socketFd = 3
	groupFd  = selfFd + 1 // and up
)

// prejoinedArguments is how large a command's arguments may be for a pre-joined process,
// whose script is made before them.
const prejoinedArguments = 24 << 10

// newPrejoined makes a pre-joined process for commands of that identity. It does not wait
// for it: one that fails on its way is found out when it is wanted.
func (c *Cell) newPrejoined(who credentials) (*prejoined, error) {
	ours, theirs, err := SocketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	s, err := c.host.script(0)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	e := &prejoined{script: s, who: who, socket: ours, groups: c.config.Group.Files()}
	if err := e.start(c, theirs); err != nil {
		return nil, errors.Join(fmt.Errorf("confine: make a pre-joined process: %w", err), ours.Close(), s.Free())
	}
	if spawn.Crowded(e.started.Pidfd()) || spawn.Crowded(int(ours.Fd())) {
		return nil, errors.Join(fmt.Errorf("confine: make a pre-joined process: %w", unix.EMFILE), e.discard())
	}
	return e, nil
}

// SocketPair makes two connected sockets for descriptors. The first is out of the way of
// new processes; the second is above the descriptors that scripts use by number, so that
// it can be inherited.
func SocketPair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs = os.NewFile(uintptr(spawn.Aside(pair[0])), "pre-joined"), os.NewFile(uintptr(pair[1]), "pre-joined")
	if theirs, err = high(theirs); err != nil {
		return nil, nil, errors.Join(err, ours.Close())
	}
	return ours, theirs, nil
}

func (e *prejoined) start(c *Cell, socket *os.File) error {
	return c.withPlaces(c.config.Group, func(pidfd, network int, group cgroup.Attach) error {
		if err := e.build(c, pidfd, network, group, socket); err != nil {
			return err
		}
		return c.host.on(func(*spawner) (err error) {
			if e.started, err = e.script.Start(0, group.Into); err == nil {
				e.started.Parted()
			}
			return err
		})
	})
}

// build writes the script up to where the command must be known.
func (e *prejoined) build(c *Cell, pidfd, network int, group cgroup.Attach, socket *os.File) error {
	s, h := e.script, c.host
	s.TellParted()
	s.part(partEnter)
	s.prctl(unix.PR_SET_DUMPABLE, 0)
	s.enterNetwork(network)
	s.Call(unix.SYS_SETNS, uintptr(pidfd), c.joined())
	e.keep(c, group, socket)
	s.Call(unix.SYS_UMASK, 0o022)
	s.rlimits(c.config.Processes)
	s.emptyBounds()
	s.drop(e.who)
	s.landlock(h.landlockIn(c.config), c.config.HostNetwork, uintptr(groupFd+e.groups))
	if err := s.filter(); err != nil {
		return err
	}
	s.part(partPark)
	s.dieWithUs()
	// What is received gets the lowest numbers that are free. If this program has
	// died before the signal was armed, the other end of the socket is closed:
	// nothing is received, and the next step finds nothing.
	s.Call(unix.SYS_CLOSE_RANGE, 0, 2, 0)
	s.Receive(socketFd, 3, 0)
	s.Call(unix.SYS_FCNTL, 2, unix.F_GETFD, 0)
	return s.Err()
}

// keep gives the descriptors that are needed later their numbers and closes all
// others. Those of cgroups may have any number and are first copied out of the
// way.
func (e *prejoined) keep(c *Cell, group cgroup.Attach, socket *os.File) {
	s, files := e.script, group.Files
	s.part(partFiles)
	var copies []spawn.Step
	for _, fd := range files {
		copies = append(copies, s.Call(unix.SYS_FCNTL, uintptr(fd), unix.F_DUPFD_CLOEXEC, inheritedFd))
	}
	for fd := range uintptr(3) {
		s.Call(unix.SYS_DUP3, c.host.null.Fd(), fd, 0)
	}
	s.Call(unix.SYS_DUP3, socket.Fd(), socketFd, unix.O_CLOEXEC)
	s.Call(unix.SYS_DUP3, c.host.null.Fd(), spareFd, unix.O_CLOEXEC) // landlock counts on it
	s.Call(unix.SYS_DUP3, c.host.self.Fd(), selfFd, unix.O_CLOEXEC)
	for i, copied := range copies {
		copied.Into(s.Call(unix.SYS_DUP3, 0, uintptr(groupFd+i), unix.O_CLOEXEC), 0)
	}
	s.closeFrom(uintptr(groupFd + len(files)))
}

// fits says whether the pre-joined process can bring a command in.
func (e *prejoined) fits(c *Cell, command Command) bool {
	return command.size() <= prejoinedArguments && e.who.equal(commandCredentials(c.host, command)) &&
		command.Group == c.config.Group
}

// exec brings a command in. The pre-joined process is used up. If it was not able to, for
// whatever reason, born is false and nothing has happened.
func (e *prejoined) exec(command Command, null *os.File) (p *spawn.Process, inside int, born bool, err error) {
	number := e.finish(command)
	if e.script.Err() != nil || e.send(command, null) != nil {
		return nil, 0, false, e.discard()
	}
	command.meanwhile()
	p, err = e.started.Await()
	inside, born = int(number.Result()), e.started.Born()
	err = errors.Join(e.script.locate(err), e.started.Done(), e.socket.Close())
	return p, inside, born, err
}

// finish writes the rest of the script, before which the pre-joined process is waiting.
func (e *prejoined) finish(command Command) (inside spawn.Step) {
	s := e.script
	s.part(partEnter)
	s.prctl(unix.PR_SET_DUMPABLE, 0)
	s.part(partDirectory)
	s.chdir(command.Dir)
	s.part(partBorn)
	branch := s.BranchFiltered()
	s.Exit()
	s.Land(branch)
	s.part(partGroups)
	for i := range e.groups {
		s.Call(unix.SYS_WRITE, uintptr(groupFd+i), s.String("0"), 1)
	}
	inside = s.session(command)
	s.part(partExecute)
	s.unmaskSignals()
	s.Call(unix.SYS_EXECVE, s.String(command.Path), s.Strings(command.Args), s.Strings(command.Env))
	return inside
}

// send passes the standard descriptors on, which is what the pre-joined process waits for.
// The socket has room for them.
func (e *prejoined) send(command Command, null *os.File) error {
	var fds []int
	for _, file := range []*os.File{command.Stdin, command.Stdout, command.Stderr} {
		if file == nil {
			file = null
		}
		fds = append(fds, int(file.Fd()))
	}
	return unix.Sendmsg(int(e.socket.Fd()), []byte{0}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
}

// discard ends a pre-joined process that brings nothing in.
func (e *prejoined) discard() error {
	p := e.started.Process()
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	_, err := p.Wait()
	return errors.Join(err, e.socket.Close(), e.script.Free())
}
