package cell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"aether/internal/host/cgroup"
	"aether/internal/host/confine"
	"aether/sandbox"
)

var _ sandbox.Forker = (*instance)(nil)

// ForkFidelity implements sandbox.Forker.
func (i *instance) ForkFidelity() sandbox.Fidelity { return sandbox.Live }

// Forked is what a fork cost its source.
type Forked struct {
	// Pause is how long it was stopped, Copied how many bytes of its memory were
	// copied meanwhile.
	Pause  time.Duration
	Copied uint64
}

// LastFork is what the last Fork cost.
func (i *instance) LastFork() Forked {
	i.forking.Lock()
	defer i.forking.Unlock()
	return i.lastFork
}

// LastForkPause is how long the last Fork stopped the cell.
func (i *instance) LastForkPause() time.Duration { return i.LastFork().Pause }

// Fork implements sandbox.Forker. A limit that a Spec leaves at zero is the
// source's own.
func (i *instance) Fork(ctx context.Context, specs []sandbox.Spec) (_ []sandbox.Instance, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cell: fork %s: %w", i.id, forkError(err))
		}
	}()
	if err := i.alive(); err != nil {
		return nil, err
	}
	for n := range specs {
		if specs[n], err = i.childSpec(specs[n]); err != nil {
			return nil, err
		}
	}
	if len(specs) == 0 {
		return nil, nil
	}
	i.forking.Lock()
	defer i.forking.Unlock()
	children, err := i.fork(ctx, specs)
	if err != nil {
		return nil, errors.Join(err, destroyChildren(ctx, children))
	}
	list := make([]sandbox.Instance, len(children))
	for n, child := range children {
		list[n] = child
	}
	return list, nil
}

// forkError says what it means that the kernel refused a step of a fork.
func forkError(err error) error {
	e := &sandbox.Error{Op: "fork", Err: err, Retry: true}
	switch {
	case sandbox.ClassOf(err) != sandbox.Internal:
		return err
	case errors.Is(err, syscall.ESRCH), errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrClosed):
		e.Class, e.Reason = sandbox.Conflict, "a process of the source ended meanwhile"
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		e.Class, e.Reason = sandbox.Exhausted, "the child has reached its limit of processes or memory"
	default:
		return err
	}
	return e
}

// childSpec is what a child is to be.
func (i *instance) childSpec(asked sandbox.Spec) (sandbox.Spec, error) {
	if err := asked.Validate(); err != nil {
		return asked, err
	}
	if asked.Image != "" && asked.Image != i.spec.Image {
		return asked, sandbox.Invalidf("image", "a fork has the image of its source")
	}
	child := i.spec
	child.ID, child.Metadata, child.Timeouts, child.Isolation = asked.ID, asked.Metadata, asked.Timeouts, asked.Isolation
	if asked.Network.Mode != sandbox.NoNetwork {
		child.Network = asked.Network
	}
	for _, limit := range []struct{ to, from *int64 }{
		{&child.Limits.MemoryBytes, &asked.Limits.MemoryBytes},
		{&child.Limits.Processes, &asked.Limits.Processes},
		{&child.Limits.DiskBytes, &asked.Limits.DiskBytes},
	} {
		if *limit.from > 0 {
			*limit.to = *limit.from
		}
	}
	if asked.Limits.CPUs > 0 {
		child.Limits.CPUs = asked.Limits.CPUs
	}
	return child, i.engine.accepts(child)
}

// makeChild makes the cell that a child will live in, with nothing running.
func (i *instance) makeChild(ctx context.Context, spec sandbox.Spec) (*instance, error) {
	child, err := i.engine.create(ctx, spec, i.root)
	if err != nil {
		return nil, err
	}
	child.parent = i.id
	child.service.Inherit(i.service)
	return child, nil
}

func destroyChildren(ctx context.Context, children []*instance) error {
	var errs []error
	for _, child := range children {
		errs = append(errs, child.Destroy(ctx))
	}
	return errors.Join(errs...)
}

// crowd is from how many children on it pays to prepare for them.
const crowd = 64

// fork makes children, and brings the source's files and processes into them. It
// gives those that it has made also if it fails.
func (i *instance) fork(ctx context.Context, specs []sandbox.Spec) ([]*instance, error) {
	first, err := i.makeChild(ctx, specs[0])
	if err != nil {
		return nil, err
	}
	children := []*instance{first}
	imprint, err := i.takeImprint(ctx, first, len(specs) == 1)
	if err != nil {
		return children, err
	}
	if len(specs) >= crowd {
		err = imprint.Compact()
	}
	if err == nil && len(specs) > 1 {
		children, err = i.raiseOthers(ctx, first, specs[1:], imprint)
	}
	if err = errors.Join(err, ctx.Err()); err == nil {
		err = first.raise(i, imprint)
	}
	if err != nil {
		return children, errors.Join(err, imprint.Close())
	}
	return children, i.imprint.keep(imprint, i.isPaused())
}

// raiseOthers makes the children beside the first: the cell of one while another
// is raised. Nothing runs in the first until all are there, so that its files are
// as good as the source's.
func (i *instance) raiseOthers(ctx context.Context, first *instance, specs []sandbox.Spec, imprint *confine.Imprint) (children []*instance, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	children = []*instance{first}
	for made := range i.makeOthers(ctx, first, specs) {
		if made.child != nil {
			children = append(children, made.child)
		}
		if err != nil {
			continue // and is only to be destroyed
		}
		if err = made.err; err == nil {
			err = made.child.raise(i, imprint)
		}
		if err != nil {
			cancel()
		} else {
			imprint.StandBy()
		}
	}
	return children, err
}

type madeChild struct {
	child *instance // nil if it could not be made
	err   error
}

// makeOthers makes cells with the files of another, until one fails.
func (i *instance) makeOthers(ctx context.Context, first *instance, specs []sandbox.Spec) <-chan madeChild {
	made := make(chan madeChild, 2)
	go func() {
		defer close(made)
		for _, spec := range specs {
			child, err := i.makeChild(ctx, spec)
			if err == nil {
				err = errors.Join(ctx.Err(), child.cell.TakeWrites(ctx, first.cell))
			}
			if made <- (madeChild{child, err}); err != nil {
				return
			}
		}
	}()
	return made
}

// takeImprint takes an imprint of the cell, and brings its files into the first
// child. If that is the only one, who will be its processes comes meanwhile. A
// cell that has been paused since the last imprint is still what it was then.
func (i *instance) takeImprint(ctx context.Context, first *instance, only bool) (*confine.Imprint, error) {
	last, current := i.imprint.take()
	if last != nil && only {
		how := last.Announce
		if current {
			how = last.Expect
		}
		if err := first.expect(how); err != nil {
			return nil, errors.Join(err, last.Close())
		}
	}
	writes, err := i.openWrites(last, first)
	if err != nil {
		return nil, errors.Join(err, last.Close())
	}
	defer writes.Close()
	if current {
		i.lastFork = Forked{}
		if err := writes.Take(ctx); err != nil {
			return nil, errors.Join(err, last.Close())
		}
		return last, nil
	}
	imprint, err := i.imprintAll(ctx, last, func() error { return writes.Take(ctx) })
	if err == nil {
		i.lastFork = Forked{Pause: imprint.Pause, Copied: imprint.Copied}
	}
	return imprint, err
}

// openWrites opens where the child's files are brought from and to.
func (i *instance) openWrites(last *confine.Imprint, child *instance) (*confine.Writes, error) {
	if last != nil {
		return last.OpenWrites(child.cell)
	}
	return child.cell.OpenWrites(i.cell)
}

// expect has whoever will be the child's processes come already.
func (child *instance) expect(how func(*confine.Cell, cgroup.Attach) error) error {
	group := cgroup.Attach{Into: -1}
	if child.group != nil {
		var err error
		if group, err = child.group.Attach(true); err != nil {
			return err
		}
	}
	return how(child.cell, group)
}

// imprintAll takes an imprint of all processes. If they are those of the last one it
// is not asked before whether they have started others: when they stand still it is
// asked anyway.
func (i *instance) imprintAll(ctx context.Context, last *confine.Imprint, files func() error) (*confine.Imprint, error) {
	if all, same := i.runningStill(last); same {
		imprint, err := i.imprintRunning(ctx, all, last, files)
		if !errors.Is(err, confine.ErrOthers) {
			return imprint, err
		}
		last = nil // it is used up
	}
	all, err := i.running()
	if err != nil {
		return nil, errors.Join(err, last.Close())
	}
	return i.imprintRunning(ctx, all, last, files)
}

// imprintRunning takes an imprint of processes that can be stopped: those of a
// paused cell are let go for it, and are paused again before they run.
func (i *instance) imprintRunning(ctx context.Context, all []confine.Running, last *confine.Imprint, files func() error) (*confine.Imprint, error) {
	if !i.isPaused() {
		return i.cell.Imprint(all, last, files)
	}
	if err := i.group.Thaw(); err != nil {
		return nil, errors.Join(err, last.Close())
	}
	imprint, err := i.cell.Imprint(all, last, func() error { return errors.Join(files(), i.pauseAgain(ctx)) })
	if err != nil {
		return nil, errors.Join(err, i.pauseAgain(context.WithoutCancel(ctx)))
	}
	return imprint, nil
}

// raise has the child's processes go on as those that the imprint is of.
func (child *instance) raise(from origin, imprint *confine.Imprint) error {
	if err := child.expect(imprint.Expect); err != nil {
		return err
	}
	estate, err := newEstate(from, child, imprint.Twins)
	if err != nil {
		return err
	}
	defer estate.closeTheirs()
	var born []*process
	for _, twin := range imprint.Twins {
		if twin.Parent == nil && err == nil {
			born, err = child.bear(born, &heir{estate, twin})
		}
	}
	if err == nil {
		err = imprint.Proceed()
	}
	// They are served once they run: until then the processors are for them.
	for len(born) > 0 && err == nil {
		if err = from.adopt(child, born[0], estate.ours); err == nil {
			born = born[1:]
		}
	}
	if err != nil {
		return errors.Join(err, endAll(born), estate.closeOurs())
	}
	return nil
}

// bear makes a process of the child, and adds it to a list.
func (child *instance) bear(list []*process, h *heir) ([]*process, error) {
	rebirth, err := h.rebirth()
	if err != nil {
		return list, err
	}
	if child.group != nil {
		if rebirth.Group, err = child.group.Attach(true); err != nil {
			return list, err
		}
	}
	rebirth.Sent = func() {
		if h.last() {
			h.closeTheirs()
		}
	}
	p := &process{cell: child, inside: h.twin.Tid()} // in a group that has killed nobody yet
	if p.Process, err = h.twin.Spawn(child.cell, rebirth); err != nil {
		return list, err
	}
	child.live.Store(p, nil)
	child.lessons = append(child.lessons, lesson{p, h.twin, h.twin.Age()})
	return append(list, p), nil
}

// endAll ends processes that nobody else waits for: they would keep their cell from
// ending.
func endAll(list []*process) error {
	var errs []error
	for _, p := range list {
		errs = append(errs, p.Kill())
		_, err := p.Wait()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
