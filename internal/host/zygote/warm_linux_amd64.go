package zygote

import (
	"errors"
	"log/slog"
	"os"
	"syscall"

	"aether/internal/host/confine"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// warmFork is a fork of a zygote that is kept ready for the next cell: the copying
// of all page tables is behind it. When the cell is known it joins that, clones a
// child there that shares its memory, and exits; the memory is then that child's
// alone, which is the warm fork from then on.
type warmFork struct {
	process *spawn.Process
	state   warmState
	cell    *confine.Cell // that it is assigned to
	samples int           // of the working set that it was faulted in for
	// confined says that it is under the cell's rules and filter already. It can make
	// neither threads nor other processes.
	confined bool
}

// enoughForks is how many forks a zygote has had that will have more.
const enoughForks = 2

// prepareWarm makes a warm fork in the background, if the zygote is one that will
// have more forks. Whoever wants one waits for it.
func (z *Zygote) prepareWarm(log *slog.Logger) {
	z.lock()
	defer z.mu.Unlock()
	if z.forks < enoughForks || z.warm != nil || z.phase != current && z.phase != behind {
		return
	}
	made := make(chan struct{})
	z.making = made
	go func() {
		err := z.makeWarm() // nobody else uses the zygote while making is set
		z.mu.Lock()
		z.making = nil
		z.mu.Unlock()
		close(made)
		if err != nil { // it only saves time
			log.Warn("no warm fork could be made", "error", err)
		}
	}()
}

// makeWarm has the zygote clone a fork, with the pages that forks are known to use.
func (z *Zygote) makeWarm() error {
	s := z.steps()
	z.script.ExpectStandBy()
	clone := s.Clone(spawn.Clone{Flags: unix.CLONE_PARENT, Cgroup: -1}).MayFail()
	z.script.Return()
	s.Land(clone)
	s.DieWithParent(os.Getpid())
	z.memory.working.Prefault(s.Script, z.memory.state)
	z.script.StandBy()
	if err := z.adoptWarm(z.runScript(), int(clone.Result())); err != nil {
		return errors.Join(err, z.dropWarm())
	}
	return nil
}

// adoptWarm waits until a process that was cloned, if one was, stands by. ran is what
// the zygote said to it.
func (z *Zygote) adoptWarm(ran error, pid int) error {
	z.fail(ran) //nolint:errcheck // given back below, with what else went wrong
	if pid <= 0 {
		return errors.Join(ran, syscall.Errno(-pid))
	}
	p, err := spawn.Adopt(pid)
	if err != nil {
		return errors.Join(ran, err)
	}
	z.warm = &warmFork{process: p, state: idle, samples: z.memory.working.Samples()}
	if ran != nil {
		return ran
	}
	return z.script.AwaitStandBy(p)
}

// assign sends the warm fork, if there is one that is idle, to a cell. It starts on
// its way at once, or when startJoining is called. It says how many were sent.
func (z *Zygote) assign(j confine.Joining, of *process, now bool) (int, error) {
	z.lock()
	defer z.mu.Unlock()
	if z.warm == nil || z.warm.state != idle {
		return 0, nil
	}
	if err := z.assignWarm(j, of); err != nil {
		return 0, err
	}
	if now {
		z.startWarm()
	}
	return 1, nil
}

func (z *Zygote) assignWarm(j confine.Joining, of *process) error {
	s := z.steps()
	s.Join(j, socketFd, of.NSPid(), unix.CLONE_VM)
	var err error
	if z.warm.confined = of.Alone(); z.warm.confined {
		err = s.ConfineEarly(j.Cell)
	}
	// Where it will be is looked up for the first time in that cell, which takes
	// long. It may not be there yet.
	s.Call(unix.SYS_CHDIR, s.String(of.Place.Dir)).MayFail()
	z.script.StandBy()
	if err = errors.Join(err, s.Err()); err == nil {
		err = j.WithFiles(z.send)
	}
	if err != nil {
		return errors.Join(err, z.dropWarm())
	}
	z.warm.cell = j.Cell
	advance(warmStates, &z.warm.state, assigned)
	return nil
}

// startJoining has the warm fork, if one is assigned, join its cell.
func (z *Zygote) startJoining() {
	z.lock()
	defer z.mu.Unlock()
	z.startWarm()
}

func (z *Zygote) startWarm() {
	if z.warm != nil && z.warm.state == assigned {
		advance(warmStates, &z.warm.state, joining)
		z.wake()
	}
}

// joined waits until the warm fork, if one is assigned, is in its cell. Before that
// no other process may be made there, which might be given the number that it will
// have.
func (z *Zygote) joined() error {
	z.lock()
	defer z.mu.Unlock()
	if z.warm == nil {
		return nil
	}
	return z.awaitOrDrop()
}

func (z *Zygote) awaitOrDrop() error {
	if err := z.awaitJoined(); err != nil {
		return errors.Join(err, z.dropWarm())
	}
	return nil
}

// awaitJoined waits until the warm fork runs the script no more: its child stands by
// in the cell.
func (z *Zygote) awaitJoined() error {
	z.startWarm()
	if z.warm.state != joining {
		return nil
	}
	advance(warmStates, &z.warm.state, joined)
	z.exited = z.warm.process
	var err error
	if !z.exited.HasEnded() {
		err = z.reapExited()
	}
	if err == nil {
		err = z.adoptJoined()
	}
	return z.fail(err) // what was sent and not received would be taken for the next one's
}

func (z *Zygote) adoptJoined() error {
	child, err := z.adopt()
	if err != nil {
		return err
	}
	z.warm.process = child
	if err := z.script.AwaitStandBy(child); err != nil {
		return err
	}
	return z.script.Failure() // of who has exited
}

// reapExited waits for the process that the warm fork was before it joined its cell.
func (z *Zygote) reapExited() (err error) {
	if z.exited != nil {
		_, err = z.exited.Wait()
		z.exited = nil
	}
	return err
}

// dropWarm ends the warm fork, if there is one.
func (z *Zygote) dropWarm() error {
	if z.warm == nil {
		return z.reapExited()
	}
	err := z.awaitJoined()
	p := z.warm.process
	z.warm = nil
	return errors.Join(err, z.reapExited(), kill(p))
}

// takeWarm gives the warm fork, in the cell, to whoever restores there, or nil. One
// that is in another cell is of no use, nor is one that cannot make what the process
// has made since.
func (z *Zygote) takeWarm(j confine.Joining, of *process) (*warmFork, error) {
	if z.warm == nil {
		return nil, nil
	}
	if z.warm.state == idle {
		if err := z.assignWarm(j, of); err != nil {
			return nil, err
		}
	}
	if z.warm.cell != j.Cell || z.warm.confined && !of.Alone() {
		return nil, z.dropWarm()
	}
	if err := z.awaitOrDrop(); err != nil {
		return nil, err
	}
	warm := z.warm
	z.warm = nil
	return warm, nil
}
