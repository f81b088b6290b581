package zygote

import (
	"errors"
	"fmt"

	"aether/internal/host/checkpoint"
	"aether/internal/host/confine"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// process is one of a checkpoint.
type process = checkpoint.Process

// Fork is a process that was forked from a zygote.
type Fork struct {
	*spawn.Process
	// NSPid is its number in its cell.
	NSPid int
	// Orphan: nobody had started it from outside, in the cell that it comes from.
	Orphan bool

	zygote     *Zygote
	generation int
}

// Sample looks at what the fork has used of its memory, for those that come after
// it: they then have those pages from the beginning. It is for its last moment.
func (f *Fork) Sample() error { return f.zygote.sample(f.Process, f.generation) }

// fork forks the zygote into a cell, where the fork has all the namespaces, rules and
// limits of a command that is started there. It waits for its registers. sent is
// called when the fork has been sent all that it is given, and is awaited.
func (z *Zygote) fork(j confine.Joining, spec *checkpoint.RestoreSpec, sent func()) (*Fork, error) {
	z.lock()
	defer z.mu.Unlock()
	if z.phase == dead {
		return nil, errors.New("zygote: it has ended")
	}
	p, err := z.restore(j, spec, sent)
	if err != nil {
		// Descriptors that were not received would be taken for the next one's.
		return nil, fmt.Errorf("zygote: fork: %w", z.fail(err))
	}
	return &Fork{Process: p, NSPid: spec.Process.NSPid(), Orphan: spec.Process.Orphan, zygote: z, generation: z.memory.generation}, nil
}

func (z *Zygote) restore(j confine.Joining, spec *checkpoint.RestoreSpec, sent func()) (p *spawn.Process, err error) {
	warm, err := z.takeWarm(j, spec.Process)
	if err != nil {
		return nil, err
	}
	if warm != nil {
		p = warm.process
	}
	s := z.steps()
	ready := z.script.Word()
	script, err := checkpoint.NewRestore(z.walker(warm), s, j.Cell, spec)
	var maker spawn.Step
	if err == nil {
		if warm == nil {
			maker = z.joinByMaker(s, j, spec.Process)
		}
		err = script.Write(ready)
	}
	if err == nil {
		err = z.sendAll(j, script, warm)
	}
	if err == nil {
		if p, err = z.walk(p, maker); err == nil {
			sent()
			err = errors.Join(z.reapExited(), z.applyDelta(), z.script.AwaitFrom(ready, p))
		}
	}
	if err != nil {
		return nil, errors.Join(err, kill(p))
	}
	z.restoring = &restoring{script, p}
	z.forks++
	return p, nil
}

// walker is who walks the script of a restore: the warm fork, or a new one.
func (z *Zygote) walker(warm *warmFork) checkpoint.Walker {
	w := checkpoint.Walker{Script: z.script, Socket: socketFd, Memory: z.memory.state, Prefault: &z.memory.working}
	if z.phase == onFiles {
		w.Memory, w.PID = nil, z.process.Pid()
	}
	if warm != nil {
		w.Confined = warm.confined
		if warm.samples >= z.memory.working.Samples() {
			w.Prefault = nil
		}
	}
	return w
}

// joinByMaker appends how a fork comes into the cell where there is no warm one: the
// zygote clones a process that shares its memory and joins the cell's namespaces, and
// whose child has the memory for itself.
func (z *Zygote) joinByMaker(s confine.Steps, j confine.Joining, of *process) (maker spawn.Step) {
	maker = s.Clone(spawn.Clone{Flags: unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PARENT, Cgroup: -1})
	z.script.Return()
	s.Land(maker)
	s.Join(j, socketFd, of.NSPid(), 0)
	return maker
}

// sendAll sends what the script receives: to who joins the cell, unless somebody has,
// what it takes for that, and to the processes their own.
func (z *Zygote) sendAll(j confine.Joining, script *checkpoint.Restore, warm *warmFork) error {
	if warm == nil {
		if err := j.WithFiles(z.send); err != nil {
			return err
		}
	}
	return script.Send(z.send)
}

// walk has the script walked: by the warm fork, or by the zygote, whose grandchild
// the fork will be.
func (z *Zygote) walk(warm *spawn.Process, maker spawn.Step) (*spawn.Process, error) {
	if warm != nil {
		z.wake()
		return warm, nil
	}
	err := z.runScript()
	if pid := int(maker.Result()); pid > 0 {
		err = errors.Join(err, reap(pid))
	}
	p, adopted := z.adopt()
	return p, errors.Join(err, adopted)
}
