package vmm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"aether/driver/guestagent"
	"aether/internal/host/launch"
	"aether/internal/host/spawn"
	"aether/sandbox"
)

// A machine of a Forker has its memory in files of ours, which it was handed. When it is
// forked it says which of them hold the memory, with a layer for what has changed; we seal
// them and hand them to the children, who cannot change them and map them for themselves.
// So nothing is taken from a monitor that a guest may have taken over but numbers.

// copies is what children go on from.
type copies struct {
	state, disk *os.File
	memory      []*os.File
	base        *base
	// writable is the writable disk as it was; nil is none.
	writable *writable
}

func (c *copies) close() {
	closeAll(append([]*os.File{c.state, c.disk}, c.memory...))
	c.base.close()
	c.writable.close()
}

// giveMemory gives a machine that boots a file for its memory.
func (m *machine) giveMemory(place workplace) error {
	file, err := launch.MemoryFile(Memory, m.hardware.MemoryMiB*mebibyte)
	if err != nil {
		return err
	}
	m.memory = []*os.File{file}
	return place.share(file, Memory)
}

func (i *instance) forkLive(ctx context.Context, forker Forker, specs []sandbox.Spec, from manifest) ([]sandbox.Instance, error) {
	made, err := i.copy(ctx, forker)
	if err != nil {
		return nil, err
	}
	defer made.close()
	defer i.flattenLater(forker)
	turns := make(chan struct{}, max(leastAtOnce, 2*runtime.NumCPU()))
	return guestagent.MakeAll(ctx, specs, func(spec sandbox.Spec) (sandbox.Instance, error) {
		turns <- struct{}{}
		defer func() { <-turns }()
		return i.engine.goOn(ctx, made, spec, from)
	})
}

// flattenAt is from how many files on the memory's become two, while nobody waits for it: a fork
// has to do it, while the machine stands still, when there are as many as a monitor takes.
const flattenAt = 8

func (i *instance) flattenLater(forker Forker) {
	go func() {
		i.verbs.Lock()
		defer i.verbs.Unlock()
		if len(i.memory) < flattenAt || i.Alive() != nil {
			return
		}
		guestagent.Discard(i.engine.opts.Logger, i.engine.system.Name+": the memory of "+i.ID()+" is still in many files", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), bootTime)
			defer cancel()
			err := i.flatten(ctx, forker)
			if ctx.Err() != nil { // and nobody knows which files the memory is in
				return errors.Join(err, i.process.kill())
			}
			if err = i.ending(err); sandbox.ClassOf(err) == sandbox.NotFound {
				return nil
			}
			return err
		})
	}()
}

func (m *machine) flatten(ctx context.Context, forker Forker) error {
	m.forks++ // what it writes is as much as a fork may
	if err := m.limit(); err != nil {
		return err
	}
	layer, err := launch.MemoryFile(Memory, m.hardware.MemoryMiB*mebibyte)
	if err != nil {
		return err
	}
	kept, err := forker.Flatten(ctx, layer)
	if err != nil {
		return errors.Join(err, layer.Close())
	}
	return m.keep(kept, layer)
}

// leastAtOnce is how many children of one call come up side by side at least. More than the
// host has processors for would only wait for each other, and some for too long.
const leastAtOnce = 4

// copy makes what children go on from. The machine goes on meanwhile, but for a moment.
func (i *instance) copy(ctx context.Context, forker Forker) (*copies, error) {
	i.verbs.Lock()
	defer i.verbs.Unlock()
	if err := i.Alive(); err != nil {
		return nil, err
	}
	made, err := i.machine.copy(ctx, forker)
	return made, i.ending(err)
}

func (m *machine) copy(ctx context.Context, forker Forker) (made *copies, err error) {
	m.forks++
	if err := m.limit(); err != nil {
		return nil, err
	}
	files, err := m.prepareCopy()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := m.standStill(ctx); err != nil {
		return nil, errors.Join(err, files.close())
	}
	// Whatever becomes of the caller from here on: a monitor that nobody listens to ends, and this
	// program is to know which files the memory of its machine is in.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), bootTime)
	defer cancel()
	said, err := forker.Fork(whole, files.Copying)
	let := m.letGoBeside(whole, began)
	defer func() {
		if err = errors.Join(err, <-let); err != nil && made != nil {
			made.close()
			made = nil
		}
	}()
	if err != nil {
		return nil, errors.Join(err, files.close())
	}
	m.forkFreeze.Store(int64(said.Pause))
	if made, err = m.takeCopy(whole, said, files); err != nil {
		return nil, err
	}
	return made, ctx.Err()
}

// letGoBeside lets the commands of a machine go on that is not paused, while others see to its
// copies, and notes for how long they stood still.
func (m *machine) letGoBeside(ctx context.Context, began time.Time) <-chan error {
	done := make(chan error, 1)
	if m.paused {
		done <- nil
		return done
	}
	go func() {
		err := m.letGo(ctx)
		m.forkPause.Store(int64(time.Since(began)))
		done <- err
	}()
	return done
}

// copyFiles are what a Forker is given, with what comes of the writable disk.
type copyFiles struct {
	Copying
	next *writable
}

// close gives up the files of a fork that came to nothing.
func (f *copyFiles) close() error {
	f.next.close()
	var err error
	for _, file := range []*os.File{f.State, f.Layer, f.Pages} {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	return err
}

// prepareCopy makes what the monitor is given, before anything stands still.
func (m *machine) prepareCopy() (f *copyFiles, err error) {
	f = &copyFiles{}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.Pages, err = m.openPages(); err != nil {
		return f, err
	}
	if f.State, err = launch.MemoryFile("state", 0); err != nil {
		return f, err
	}
	if f.Layer, err = launch.MemoryFile(Memory, m.hardware.MemoryMiB*mebibyte); err != nil {
		return f, err
	}
	if f.next, err = m.writable.next(); err != nil {
		return f, err
	}
	f.Frozen, f.Next = m.writable.written(), f.next.written()
	return f, nil
}

// openPages opens what the kernel knows of the pages of the machine's process, which itself
// has no /proc.
func (m *machine) openPages() (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/%d/pagemap", m.process.pid))
}

// takeCopy has nobody change any more what the monitor says that children go on from.
func (m *machine) takeCopy(ctx context.Context, said Copied, files *copyFiles) (*copies, error) {
	err := errors.Join(files.Pages.Close(), m.keep(said.Kept, files.Layer), m.writable.freeze(files.next))
	for _, file := range append([]*os.File{files.State}, m.memory...) {
		if err == nil {
			err = spawn.Seal(ctx, file)
		}
	}
	if err != nil {
		return nil, errors.Join(err, files.State.Close())
	}
	return m.share(files.State)
}

// keep lets go of the files that hold nothing of the memory any more. Which those are is the
// monitor's word: at worst its children are not made.
func (m *machine) keep(kept []int, layer *os.File) error {
	all := append(slices.Clone(m.memory), layer)
	var left []*os.File
	for n, was := range kept {
		if was < 0 || was >= len(all) || n > 0 && was <= kept[n-1] {
			return errors.Join(&sandbox.Error{Class: sandbox.Internal, Reason: fmt.Sprintf("the monitor says that its memory is in %v of %d files", kept, len(all))}, layer.Close())
		}
		left = append(left, all[was])
	}
	for _, file := range all {
		if !slices.Contains(left, file) {
			file.Close()
		}
	}
	if len(m.memory) == 0 || left == nil || left[0] != m.memory[0] {
		m.base.close()
		m.base = nil
	}
	m.memory = left
	return nil
}

// share opens everything once more, for reading only.
func (m *machine) share(state *os.File) (*copies, error) {
	made := &copies{state: state}
	var err error
	if made.disk, err = launch.Reopen(m.disk); err != nil {
		return nil, errors.Join(err, state.Close())
	}
	if made.memory, err = againAll(m.memory); err == nil {
		made.base, err = m.base.again()
	}
	if err == nil {
		made.writable, err = m.writable.frozen()
	}
	if err != nil {
		made.close()
		return nil, err
	}
	return made, nil
}

func againAll(files []*os.File) (list []*os.File, err error) {
	for _, file := range files {
		opened, err := launch.Reopen(file)
		if err != nil {
			closeAll(list)
			return nil, err
		}
		list = append(list, opened)
	}
	return list, nil
}

// goOn makes a machine that goes on from copies.
func (e *engine) goOn(ctx context.Context, made *copies, spec sandbox.Spec, from manifest) (*instance, error) {
	disk, err := launch.Reopen(made.disk)
	if err != nil {
		return nil, err
	}
	m := e.newMachine(spec, from.Hardware, from.Origin, disk)
	if m.memory, err = againAll(made.memory); err == nil {
		m.base, err = made.base.again()
	}
	if err == nil {
		m.writable, err = made.writable.goOn()
	}
	if err != nil {
		m.closeFiles()
		return nil, errors.Join(err, disk.Close())
	}
	return m.start(ctx, beginning{
		fill:  func(place workplace) error { return place.share(made.state, stateInSaved(e.system)) },
		begin: func(ctx context.Context) error { return m.place.load(ctx, m) },
		greet: func(ctx context.Context) error { return m.becomeOther(ctx, from) },
	})
}
