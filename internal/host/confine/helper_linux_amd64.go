package confine

import (
	"errors"
	"fmt"
	"os"

	"aether/internal/host/cgroup"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// Helper is what a process of a cell is to make for others to be given: things
// that must be of the cell's own namespaces, in its account and with no more
// rights than its processes have.
type Helper struct {
	Who   Credentials
	Dir   string
	Group cgroup.Way
	// Inputs are at the process's descriptors from FirstInput on.
	Inputs []*os.File
	// Write appends the steps and says how many descriptors they make, each the
	// lowest that is free, from FirstInput+len(Inputs) on.
	Write func(*spawn.Script) int
	// Steps and Bytes bound what Write needs of a script.
	Steps, Bytes int
	// Check is asked, if not nil, when all steps have been made.
	Check func() error

	lookable bool // this program must be, for the taking
}

// FirstInput is the number of a Making's first input.
const FirstInput = 3

// RunHelper has a process of the cell make things, and gives the descriptors. The
// process executes nothing and ends.
func (c *Cell) RunHelper(m Helper) (files []*os.File, err error) {
	release, err := c.host.use("make")
	if err != nil {
		return nil, err
	}
	defer release()
	const entering = 256
	raw, err := spawn.NewLongScript(m.Steps+entering+4*len(m.Inputs), m.Bytes+64<<10)
	if err != nil {
		return nil, fmt.Errorf("confine: make: %w", err)
	}
	s := script{raw, &plan{without: c.host.without}}
	if c.host.Identity.Single {
		spawn.Visibility.Lock()
		defer spawn.Visibility.Unlock()
	}
	s.TellParted()
	taken := s.Word()
	var started spawn.Started
	var count int
	err = c.withTarget(m.Group, func(t target) (err error) {
		if count, err = s.helper(c, t, m, taken); err != nil {
			return err
		}
		return c.host.on(func(*spawner) (err error) {
			if started, err = s.Start(0, -1); err == nil {
				started.Parted()
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("confine: make: %w", errors.Join(err, s.Free()))
	}
	if c.host.Identity.Single {
		m.lookable = true
	}
	if files, err = m.collect(started, count, taken); err != nil {
		return nil, fmt.Errorf("confine: make: %w", err)
	}
	return files, nil
}

// collect takes from the process what it has made, and lets it end.
func (m Helper) collect(started spawn.Started, count int, taken spawn.Word) (files []*os.File, err error) {
	if err = started.Announced(); err == nil {
		if m.Check != nil {
			err = m.Check()
		}
		if err == nil && m.lookable {
			// To take from a process whose memory is still this program's, an
			// ordinary user must be able to look into that. Nothing runs in the
			// cell yet that could.
			err = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		}
		if err == nil {
			files, err = takeFiles(started.Branched(), FirstInput+len(m.Inputs), count)
		}
	}
	taken.Set()
	p, ended := started.Await()
	if ended == nil {
		_, ended = p.Wait()
	}
	if err == nil {
		err = ended
	}
	if err = errors.Join(err, started.Done()); err != nil {
		return nil, errors.Join(err, closeAll(files))
	}
	return files, nil
}

// helper appends everything from a fresh child of this program to the things made.
// It enters as a command does, and is born again for the same reasons.
func (s script) helper(c *Cell, t target, m Helper, taken spawn.Word) (count int, err error) {
	s.enterCell(c, t, 0, nil) // what it makes is not of any clock
	s.part(partFiles)
	s.inputs(c.host, m.Inputs)
	s.part(partSession)
	s.Call(unix.SYS_SETSID)
	who := credentials{uid: m.Who.UID, gid: m.Who.GID, groups: m.Who.Groups, single: c.host.Identity.Single}
	if err := s.lockIn(c, who, m.Dir, uintptr(FirstInput+len(m.Inputs))); err != nil {
		return 0, err
	}
	s.part(partHelper)
	count = m.Write(s.Script)
	// Standard output is the null device, and so is what it becomes.
	s.Announce(0)
	s.Wait(taken, handshake)
	s.Exit()
	return count, nil
}

// inputs gives the process its descriptors: all are copied out of the way of each
// other first.
func (s script) inputs(h *Host, list []*os.File) {
	end := FirstInput + len(list)
	copies := make([]spawn.Step, len(list))
	for i, f := range list {
		copies[i] = s.Call(unix.SYS_FCNTL, f.Fd(), unix.F_DUPFD_CLOEXEC, uintptr(end))
	}
	null := s.Call(unix.SYS_FCNTL, h.null.Fd(), unix.F_DUPFD_CLOEXEC, uintptr(end))
	for i := range copies {
		copies[i].Into(s.Call(unix.SYS_DUP3, 0, uintptr(FirstInput+i), unix.O_CLOEXEC), 0)
	}
	null.Into(s.Call(unix.SYS_DUP3, 0, 0, 0), 0)
	for fd := range uintptr(FirstInput - 1) {
		s.Call(unix.SYS_DUP3, 0, fd+1, 0)
	}
	s.closeFrom(uintptr(end))
}

// takeFiles takes descriptors from a process.
func takeFiles(pid, first, count int) (files []*os.File, err error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(pidfd)
	for i := range count {
		fd, err := unix.PidfdGetfd(pidfd, first+i, 0)
		if err != nil {
			return nil, errors.Join(os.NewSyscallError("pidfd_getfd", err), closeAll(files))
		}
		files = append(files, os.NewFile(uintptr(fd), "made"))
	}
	return files, nil
}

func closeAll(files []*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
