package zygote

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"time"

	"aether/internal/host/checkpoint"
	"aether/internal/host/confine"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// Tree is what forks of a cell are made from: the checkpoint of all its processes,
// and a zygote for each that was started from outside.
type Tree struct {
	Checkpoint *checkpoint.Checkpoint
	// Pause is how long the cell was stopped for it, Copied how much memory was
	// copied.
	Pause  time.Duration
	Copied uint64

	host    *confine.Host
	list    []checkpoint.Running
	zygotes []*Zygote
	// keeper is the thread that zygotes are children of: they end with it.
	keeper *spawn.Thread
	writes *confine.WriteSource // of the cell, for the files of the next fork
}

// Take takes a checkpoint of processes of a cell, which must be all that run in it,
// parents before their children: checkpoint.ErrOthers says that they are not. They
// are stopped meanwhile, and go on exactly as they were whether or not it succeeds;
// during runs while they are. last is the tree that was taken before, or nil: it is
// used up, and if it is of the same processes only what they have written since has
// to be copied.
func Take(h *confine.Host, c *confine.Cell, list []checkpoint.Running, last *Tree, during func() error) (_ *Tree, err error) {
	t := last
	if !last.usable(list) {
		if err := last.Close(); err != nil {
			return nil, err
		}
		if t, err = newTree(h, c, list); err != nil {
			return nil, fmt.Errorf("zygote: take a checkpoint: %w", err)
		}
	}
	if err = t.trace(func() error { return t.take(c, during) }); err == nil {
		err = t.each((*Zygote).catchUp)
	}
	if err == nil {
		return t, nil
	}
	again := last != nil && errors.Is(err, checkpoint.ErrOther)
	if err = errors.Join(err, t.Close()); again {
		return Take(h, c, list, nil, during)
	}
	return nil, fmt.Errorf("zygote: take a checkpoint: %w", err)
}

// usable says whether the tree is of those processes and can be used again.
func (t *Tree) usable(list []checkpoint.Running) bool {
	return t != nil && slices.Equal(t.list, list) && !slices.ContainsFunc(t.zygotes, func(z *Zygote) bool { return !z.usable() })
}

// Processes are those that the tree is of.
func (t *Tree) Processes() []checkpoint.Running { return t.list }

// newTree starts zygotes for processes, which may be running.
func newTree(h *confine.Host, c *confine.Cell, list []checkpoint.Running) (t *Tree, err error) {
	t = &Tree{host: h, list: list}
	if t.keeper, err = spawn.NewThread(func() error { return nil }); err != nil {
		return nil, err
	}
	if t.writes, err = c.WriteSource(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	for i, r := range list {
		if r.Parent >= 0 {
			continue
		}
		z, err := newZygote(h, r.PID, i, t.keeper)
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.zygotes = append(t.zygotes, z)
	}
	return t, nil
}

// each runs a function for every zygote, until one fails.
func (t *Tree) each(fn func(*Zygote) error) error {
	for _, z := range t.zygotes {
		if err := fn(z); err != nil {
			return err
		}
	}
	return nil
}

// of is the process that a zygote has the memory of.
func (t *Tree) of(z *Zygote) *process { return t.Checkpoint.Processes[z.place] }

// at is the zygote of the process at a place, or nil if that one has a parent.
func (t *Tree) at(place int) *Zygote {
	for _, z := range t.zygotes {
		if z.place == place {
			return z
		}
	}
	return nil
}

// trace runs a function on a thread that traces.
func (t *Tree) trace(fn func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() { // this one never ends
			err = t.keeper.Do(fn)
			runtime.UnlockOSThread()
			return
		}
		if err = fn(); err == nil {
			runtime.UnlockOSThread()
		}
		// A thread of a process may be stuck: this one ends with this function
		// then, and lets go of all that it traces.
	}()
	<-done
	return err
}

// take stops the processes and does what has to be done meanwhile: first all that may
// be refused, then the rest.
func (t *Tree) take(c *confine.Cell, during func() error) (err error) {
	last := t.Checkpoint
	if err := last.Close(); err != nil {
		return err
	}
	began := time.Now()
	stopped, err := checkpoint.Stop(t.list, c.Pid())
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, stopped.Resume())
		t.Pause = time.Since(began)
	}()
	// A warm fork joins its cell once the process has nothing to do: until then a
	// processor that is free is for that one.
	told := func(place int) {
		if z := t.at(place); z != nil {
			z.startJoining()
		}
	}
	if t.Checkpoint, err = stopped.Read(c.Identity(), last, t.writes, told); err != nil {
		return err
	}
	t.Copied = 0
	for i, p := range t.Checkpoint.Processes {
		if z := t.at(i); z != nil {
			err = z.take(p.State)
		} else {
			err = p.SavePages()
		}
		if err != nil {
			return err
		}
		t.Copied += p.State.Copied()
	}
	return during()
}

// Close ends the zygotes. What was forked from them stays.
func (t *Tree) Close() error {
	if t == nil {
		return nil
	}
	var errs []error
	for _, z := range t.zygotes {
		errs = append(errs, z.close())
	}
	if t.keeper != nil {
		t.keeper.Close()
	}
	return errors.Join(append(errs, t.Checkpoint.Close(), t.writes.Close())...)
}

// OpenWrites opens where the files of a child are brought from and to.
func (t *Tree) OpenWrites(to *confine.Cell) (*confine.Writes, error) { return t.writes.OpenWrites(to) }

// Prejoin has warm forks join the cell that the next child will be in, while there is
// other work to do: now, or while the next checkpoint is taken. It says how many do.
func (t *Tree) Prejoin(j confine.Joining, now bool) (count int, err error) {
	for _, z := range t.zygotes {
		assigned, err := z.assign(j, t.of(z), now)
		if err != nil {
			return count, err
		}
		count += assigned
	}
	return count, nil
}

// Collapse makes forks cheaper, for whoever will have many at once.
func (t *Tree) Collapse() error { return t.each((*Zygote).collapse) }

// PrepareWarm makes warm forks in the background, of those zygotes that have had
// several forks and will have more.
func (t *Tree) PrepareWarm(log *slog.Logger) {
	for _, z := range t.zygotes {
		z.prepareWarm(log)
	}
}

// Restored are the processes of a checkpoint in another cell.
type Restored struct {
	// Forks are those that were started from outside, in their order.
	Forks []*Fork
	// Outside are the ends of the source's streams that are outside of the new cell.
	Outside map[*checkpoint.Stream]*os.File
}

// Restore has the processes of the checkpoint go on in another cell, in which nothing
// runs but has the source's files. streams are those of the source whose other ends
// are outside of it.
func (t *Tree) Restore(j confine.Joining, streams []*checkpoint.Stream) (r *Restored, err error) {
	if _, err := t.Prejoin(j, true); err != nil {
		return nil, err
	}
	joined := func() error { return t.each((*Zygote).joined) }
	files, err := checkpoint.NewFileRestorer(t.Checkpoint, j.Cell, j.Group, streams, joined)
	if err != nil {
		return nil, err
	}
	defer files.CloseGiven()
	r = &Restored{Outside: files.Outside}
	if err = t.forkAll(r, j, files); err == nil {
		err = t.proceed()
	}
	if err != nil {
		return nil, errors.Join(err, r.Discard(0))
	}
	return r, nil
}

// Discard ends the forks from one on and closes what is outside, for whom nobody will
// care.
func (r *Restored) Discard(from int) error {
	var errs []error
	for _, f := range r.Forks[from:] {
		errs = append(errs, kill(f.Process))
	}
	for _, f := range r.Outside {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// forkAll forks every zygote into the cell.
func (t *Tree) forkAll(r *Restored, j confine.Joining, files *checkpoint.FileRestorer) error {
	for i, z := range t.zygotes {
		spec, err := files.Spec(t.of(z))
		if err != nil {
			return err
		}
		sent := func() {
			if i == len(t.zygotes)-1 {
				files.CloseGiven()
			}
		}
		fork, err := z.fork(j, spec, sent)
		if err != nil {
			return err
		}
		r.Forks = append(r.Forks, fork)
	}
	return nil
}

// proceed has every fork that was made since go on where its like was. None of them
// runs while another is still being made: until then that one could be stopped, and
// shares memory with its zygote.
func (t *Tree) proceed() (err error) {
	// One thread traces them all, and any will do.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all []*checkpoint.Tracee
	for _, z := range t.zygotes {
		if z.restoring != nil && err == nil {
			var tracees []*checkpoint.Tracee
			tracees, err = z.restoring.script.RestoreRegisters(z.restoring.process.Pid())
			all = append(all, tracees...)
		}
		z.restoring = nil
	}
	errs := []error{err}
	for _, tracee := range all {
		if err != nil {
			errs = append(errs, unix.Kill(tracee.PID, unix.SIGKILL))
		}
		errs = append(errs, tracee.Release())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("zygote: restore: %w", err)
	}
	return nil
}
