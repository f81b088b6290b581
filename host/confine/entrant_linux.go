package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"aether/host/cgroup"
	"aether/host/spawn"

	"golang.org/x/sys/unix"
)

// entrant is a process that has joined a cell, but for its pid namespace, and
// given everything up, and waits for a command to bring in: all that takes
// longer than what is left. It serves one command and is invisible inside.
type entrant struct {
	script  script
	who     credentials
	wanted  spawn.Word
	started spawn.Started
	process *spawn.Process
	socket  *os.File      // standard descriptors are sent through it
	group   cgroup.Attach // that its commands enter
}

// Descriptors of an entrant, besides selfFd: those of cgroups follow.
const (
	socketFd = 3
	groupFd  = selfFd + 1
)

// entrantArguments is how large a command's arguments may be for an entrant,
// whose script is made before them.
const entrantArguments = 24 << 10

// newEntrant makes an entrant for commands of that identity and group.
func (c *Cell) newEntrant(who credentials, group cgroup.Attach) (*entrant, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	s, err := c.host.script(0)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	e := &entrant{script: s, who: who, group: group, socket: ours, wanted: s.Word()}
	if err := e.start(c, theirs); err != nil {
		return nil, errors.Join(fmt.Errorf("confine: make an entrant: %w", err), ours.Close(), s.Free())
	}
	return e, nil
}

// socketPair keeps its ends above the descriptors that scripts use by number.
func socketPair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs = os.NewFile(uintptr(pair[0]), "entrant"), os.NewFile(uintptr(pair[1]), "entrant")
	if theirs, err = high(theirs); err != nil {
		return nil, nil, errors.Join(err, ours.Close())
	}
	return ours, theirs, nil
}

// start clones the process and waits until it is parked and armed with its
// parent-death signal. It leaves no process behind if it fails.
func (e *entrant) start(c *Cell, socket *os.File) (err error) {
	var seen spawn.Word
	gone := c.init.Fd(func(pidfd int) {
		if seen, err = e.build(c, pidfd, socket); err != nil {
			return
		}
		err = c.host.on(func(*spawner) (err error) {
			e.started, err = e.script.Start(0, e.group.Into)
			return err
		})
	})
	if err = errors.Join(gone, err); err != nil {
		return err
	}
	e.process = e.started.Process()
	if err := e.started.Announced(); err != nil {
		_, waited := e.process.Wait()
		return errors.Join(err, waited)
	}
	seen.Set()
	return nil
}

// build writes the script up to where the command must be known.
func (e *entrant) build(c *Cell, pidfd int, socket *os.File) (seen spawn.Word, err error) {
	s, h := e.script, c.host
	seen = s.Word()
	s.part(partEnter)
	s.prctl(unix.PR_SET_DUMPABLE, 0)
	s.Call(unix.SYS_SETNS, uintptr(pidfd), c.namespace)
	e.keep(c, socket)
	s.Call(unix.SYS_UMASK, 0o022)
	s.rlimits(c.config.Processes)
	s.emptyBounds()
	s.drop(e.who)
	s.landlock(h.landlock, c.config.HostNetwork, uintptr(groupFd+len(e.group.Files)))
	if err := s.filter(); err != nil {
		return seen, err
	}
	s.part(partPark)
	s.dieWithUs()
	s.Announce(0)
	s.Wait(seen, handshake)
	s.Wait(e.wanted, 0)
	return seen, s.Err()
}

// keep gives the descriptors that are needed later their numbers and closes all
// others. Those of cgroups may have any number and are first copied out of the
// way.
func (e *entrant) keep(c *Cell, socket *os.File) {
	s, files := e.script, e.group.Files
	s.part(partFiles)
	var copies []spawn.Step
	for _, fd := range files {
		copies = append(copies, s.Call(unix.SYS_FCNTL, uintptr(fd), unix.F_DUPFD_CLOEXEC, inheritedFd))
	}
	for fd := range uintptr(3) {
		s.Call(unix.SYS_DUP3, c.host.null.Fd(), fd, 0)
	}
	s.Call(unix.SYS_DUP3, socket.Fd(), socketFd, unix.O_CLOEXEC)
	s.Call(unix.SYS_DUP3, c.host.null.Fd(), spareFd, unix.O_CLOEXEC)
	s.Call(unix.SYS_DUP3, c.host.self.Fd(), selfFd, unix.O_CLOEXEC)
	for i, copied := range copies {
		copied.Into(s.Call(unix.SYS_DUP3, 0, uintptr(groupFd+i), unix.O_CLOEXEC), 0)
	}
	s.closeFrom(uintptr(groupFd + len(files)))
}

// fits says whether the entrant can bring a command in.
func (e *entrant) fits(c *Cell, command Command) bool {
	return command.size() <= entrantArguments && e.who.equal(commandCredentials(c.host, command)) &&
		command.Group.Into == e.group.Into && slices.Equal(command.Group.Files, e.group.Files)
}

// exec brings a command in. The entrant is used up.
func (e *entrant) exec(command Command, null *os.File) (*spawn.Process, int, error) {
	inside := e.finish(command)
	if err := errors.Join(e.script.Err(), e.send(command, null)); err != nil {
		return nil, 0, errors.Join(err, e.discard())
	}
	e.wanted.Set()
	p, err := e.started.Await()
	number := int(inside.Result())
	return p, number, errors.Join(err, e.started.Done(), e.socket.Close())
}

// finish writes the rest of the script, which the entrant is waiting for.
func (e *entrant) finish(command Command) (inside spawn.Step) {
	s := e.script
	s.part(partFiles)
	// Received descriptors get the lowest numbers that are free.
	s.Call(unix.SYS_CLOSE, selfFd)
	s.Call(unix.SYS_RECVMSG, socketFd, s.message(), unix.MSG_CMSG_CLOEXEC)
	for i, fd := range []int{selfFd, groupFd + len(e.group.Files), groupFd + len(e.group.Files) + 1} {
		s.Call(unix.SYS_DUP3, uintptr(fd), uintptr(i), 0)
	}
	s.prctl(unix.PR_SET_DUMPABLE, 0)
	s.chdir(command.Dir)
	s.part(partBorn)
	branch := s.BranchFiltered()
	s.Exit()
	s.Land(branch)
	s.part(partGroups)
	for i := range e.group.Files {
		s.Call(unix.SYS_WRITE, uintptr(groupFd+i), s.String("0"), 1)
	}
	inside = s.session(command)
	s.part(partExecute)
	s.unmaskSignals()
	s.Call(unix.SYS_EXECVE, s.String(command.Path), s.Strings(command.Args), s.Strings(command.Env))
	return inside
}

// message is the address of a msghdr with room for a byte and three descriptors.
func (s script) message() uintptr {
	const messageSize, vectorSize = 56, 16
	data, _ := s.Bytes(8)
	vector, mem := s.Bytes(vectorSize)
	binary.NativeEndian.PutUint64(mem, uint64(data))
	binary.NativeEndian.PutUint64(mem[8:], 1)
	space := unix.CmsgSpace(3 * 4)
	control, _ := s.Bytes(space)
	message, mem := s.Bytes(messageSize)
	binary.NativeEndian.PutUint64(mem[16:], uint64(vector))
	binary.NativeEndian.PutUint64(mem[24:], 1)
	binary.NativeEndian.PutUint64(mem[32:], uint64(control))
	binary.NativeEndian.PutUint64(mem[40:], uint64(space))
	return message
}

// send passes the standard descriptors on. The socket has room for them.
func (e *entrant) send(command Command, null *os.File) error {
	var fds []int
	for _, file := range []*os.File{command.Stdin, command.Stdout, command.Stderr} {
		if file == nil {
			file = null
		}
		fds = append(fds, int(file.Fd()))
	}
	err := unix.Sendmsg(int(e.socket.Fd()), []byte{0}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
	return os.NewSyscallError("sendmsg", err)
}

// discard ends an entrant that brings nothing in.
func (e *entrant) discard() error {
	if err := e.process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	_, err := e.process.Wait()
	return errors.Join(err, e.socket.Close(), e.script.Free())
}
