package launch

import (
	"errors"
	"fmt"
	"os"

	"aether/internal/host/cgroup"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// Program is one to be started.
type Program struct {
	Path string // absolute
	Args []string
	Env  []string
	// Files are its descriptors, from 0 on.
	Files []*os.File
	// Group is where it and all that it starts is accounted; Into is -1 for none.
	Group cgroup.Attach
	// Tree, if set, is put together at Root in a mount namespace of its own. The
	// program is then also the first process of a pid namespace, whose /proc it has: its
	// end, however it comes, is the end of everything that it started, and Wait of the
	// Process waits for all of it.
	Tree *Tree
	// OwnNetwork gives a program with a Tree a network namespace of its own, in which
	// there is a loopback and nothing else.
	OwnNetwork bool
}

// aboveFiles is where descriptors are kept until they get their numbers.
const aboveFiles = 512

// Start starts a program, which is killed when this one ends. It returns when the
// program runs. Errors: spawn.Failure names the step that the kernel refused.
func (h *Host) Start(p Program) (*Process, error) {
	var id identity
	var err error
	if p.Tree != nil {
		if id, err = h.claim(); err != nil {
			return nil, fmt.Errorf("launch: %w", err)
		}
	}
	process, err := h.startAs(p, id)
	id.closeNamespace()
	if err != nil {
		return nil, errors.Join(err, h.release(id))
	}
	return &Process{Process: process, free: func() error { return h.release(id) }}, nil
}

func (h *Host) startAs(p Program, id identity) (*spawn.Process, error) {
	opened, err := h.open(p.Tree, id)
	defer opened.close()
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	s, err := spawn.NewScript(p.size())
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	process, err := h.run(script{s}, p, id, opened)
	if err != nil {
		return nil, fmt.Errorf("launch %s: %w", p.Args[0], err)
	}
	return process, nil
}

func (p Program) size() int {
	size := spawn.Size(p.Args) + spawn.Size(p.Env) + len(p.Path) + 8<<10
	if p.Tree != nil {
		size += p.Tree.size()
	}
	return size
}

func (h *Host) run(s script, p Program, id identity, opened *openTree) (*spawn.Process, error) {
	var flags uint64
	var mapped spawn.Word
	s.Call(unix.SYS_UMASK, 0)
	for _, fd := range p.Group.Files {
		s.Call(unix.SYS_WRITE, uintptr(fd), s.String("0"), 1)
	}
	if p.Tree != nil {
		flags = p.namespaces()
		mapped = s.Word()
		s.Wait(mapped, mapTime)
		s.becomeRoot(h.Single)
		if p.OwnNetwork {
			s.LoopbackUp()
		}
		s.tree(h.dir, p.Tree, opened, p.firstPart())
		s.mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
	s.finish(p)
	if err := s.Err(); err != nil {
		return nil, errors.Join(err, s.Free())
	}
	started, err := h.start(s.Script, id, flags, p.Group.Into)
	if err != nil {
		return nil, errors.Join(err, s.Free())
	}
	if p.Tree != nil {
		if err := h.writeMaps(started.Pid(), id); err != nil {
			return nil, errors.Join(err, h.abandon(started))
		}
		mapped.Set()
	}
	process, err := started.Await()
	return process, errors.Join(err, started.Done())
}

func (p Program) namespaces() uint64 {
	flags := uint64(unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID)
	if p.OwnNetwork {
		flags |= unix.CLONE_NEWNET
	}
	return flags
}

// abandon ends a child that got no ids.
func (h *Host) abandon(started spawn.Started) error {
	err := started.Process().Signal(unix.SIGKILL)
	_, ended := started.Process().Wait()
	return errors.Join(err, ended, started.Done())
}

// firstPart is a number above all of its files' in this program, which may have many others
// open: those the program does not get.
func (p Program) firstPart() uintptr {
	const least = 300
	above := uintptr(least)
	for _, file := range p.Files {
		above = max(above, file.Fd()+1)
	}
	return above
}

// finish appends descriptors, the tie to this program, and the execution.
func (s script) finish(p Program) {
	s.files(p.Files)
	s.Call(unix.SYS_UMASK, 0o022)
	// Not earlier: a change of identity undoes it.
	s.Call(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	s.Call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, s.NoSignals(), 0, 8)
	s.Call(unix.SYS_EXECVE, s.String(p.Path), s.Strings(p.Args), s.Strings(p.Env))
}

// files gives descriptors their numbers, all of them copied out of the way first.
// Whatever else this program has inherited or opened, the other one does not get.
func (s script) files(list []*os.File) {
	copies := make([]spawn.Step, len(list))
	for i, file := range list {
		copies[i] = s.Call(unix.SYS_FCNTL, file.Fd(), unix.F_DUPFD_CLOEXEC, aboveFiles)
	}
	s.Call(unix.SYS_CLOSE_RANGE, 0, ^uintptr(0)>>32, unix.CLOSE_RANGE_CLOEXEC)
	for i := range list {
		copies[i].Into(s.Call(unix.SYS_DUP3, 0, uintptr(i), 0), 0)
	}
}
