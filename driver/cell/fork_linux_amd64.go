package cell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"syscall"
	"time"

	"aether/internal/host/checkpoint"
	"aether/internal/host/confine"
	"aether/internal/host/zygote"
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
			err = fmt.Errorf("cell: fork %s: %w", i.ID(), forkError(err))
		}
	}()
	if err := i.Alive(); err != nil {
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
		// The files of a source on the network are so that the child finds its gateway.
		if err := child.settleNetwork(ctx, !i.spec.Network.Mode.Filtered()); err != nil {
			return nil, errors.Join(err, destroyChildren(ctx, children))
		}
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
	child.Mounts = addMounts(i.spec.Mounts, asked.Mounts)
	switch {
	case asked.Network.Mode != sandbox.NoNetwork:
		child.Network = asked.Network
	case i.network != nil:
		child.Network = i.network.Network() // which may have changed
	}
	for _, limit := range []struct{ to, from *int64 }{
		{&child.Limits.MemoryBytes, &asked.Limits.MemoryBytes},
		{&child.Limits.Processes, &asked.Limits.Processes},
		{&child.Limits.DiskBytes, &asked.Limits.DiskBytes},
		{&child.Limits.DiskReadRate, &asked.Limits.DiskReadRate},
		{&child.Limits.DiskWriteRate, &asked.Limits.DiskWriteRate},
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

// addMounts gives a child the mounts of its source, and those others that it is asked to
// have.
func addMounts(source, asked []sandbox.Mount) []sandbox.Mount {
	all := slices.Clone(source)
	for _, m := range asked {
		at := func(other sandbox.Mount) bool { return path.Clean(other.Target) == path.Clean(m.Target) }
		if !slices.ContainsFunc(source, at) {
			all = append(all, m)
		}
	}
	return all
}

// makeChild makes the cell that a child will live in, with nothing running.
func (i *instance) makeChild(ctx context.Context, spec sandbox.Spec) (*instance, error) {
	child, err := i.engine.create(ctx, spec, i.root, i.network.AuthorityKey())
	if err != nil {
		return nil, err
	}
	if err := child.cell.Advance(i.cell.Clock()); err != nil {
		return nil, errors.Join(err, child.Destroy(ctx))
	}
	if i.layer != nil && child.layer == nil { // the source has let go of it
		return nil, errors.Join(&sandbox.Error{Class: sandbox.NotFound, Reason: "the source has ended meanwhile"}, child.Destroy(ctx))
	}
	child.parent = i.ID()
	child.joinFamily(i)
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

// many is from how many children on it pays to prepare for them.
const many = 64

// fork makes children, and brings the source's files and processes into them. It
// gives those that it has made also if it fails.
func (i *instance) fork(ctx context.Context, specs []sandbox.Spec) ([]*instance, error) {
	first, err := i.makeChild(ctx, specs[0])
	if err != nil {
		return nil, err
	}
	children := []*instance{first}
	tree, err := i.checkpointFor(ctx, first, len(specs) == 1)
	if err != nil {
		return children, err
	}
	i.closed = tree.Checkpoint.ClosedConnections()
	if len(specs) >= many {
		err = tree.Collapse()
	}
	if err == nil && len(specs) > 1 {
		children, err = i.restoreOthers(ctx, first, specs[1:], tree)
	}
	if err = errors.Join(err, ctx.Err()); err == nil {
		err = first.restore(&liveStreams{instance: i}, tree)
	}
	if err != nil {
		return children, errors.Join(err, tree.Close())
	}
	return children, i.kept.keep(tree, i.Paused(), i.engine.log)
}

// restoreOthers makes the children beside the first: the cell of one while another is
// restored. Nothing runs in the first until all are there, so that its files are as
// good as the source's.
func (i *instance) restoreOthers(ctx context.Context, first *instance, specs []sandbox.Spec, tree *zygote.Tree) (children []*instance, err error) {
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
			err = made.child.restore(&liveStreams{instance: i}, tree)
		}
		if err != nil {
			cancel()
		} else {
			tree.PrepareWarm(i.engine.log)
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

// checkpointFor takes a checkpoint of the cell, and brings its files into the first
// child. If that is the only one, warm forks join it meanwhile. A cell that has been
// paused since the last checkpoint is still what it was then.
func (i *instance) checkpointFor(ctx context.Context, first *instance, only bool) (*zygote.Tree, error) {
	last, current := i.kept.take()
	if last != nil && only {
		j, err := first.joining()
		if err == nil {
			_, err = last.Prejoin(j, current)
		}
		if err != nil {
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
	tree, err := i.checkpointAll(ctx, last, func() error { return writes.Take(ctx) })
	if err == nil {
		i.lastFork = Forked{Pause: tree.Pause, Copied: tree.Copied}
	}
	return tree, err
}

// openWrites opens where the child's files are brought from and to.
func (i *instance) openWrites(last *zygote.Tree, child *instance) (*confine.Writes, error) {
	if last != nil {
		return last.OpenWrites(child.cell)
	}
	return child.cell.OpenWrites(i.cell)
}

// joining is how processes join the cell.
func (i *instance) joining() (confine.Joining, error) {
	j := confine.Joining{Cell: i.cell}
	group, err := i.occupy()
	if group != nil {
		j.Group = group.Way()
	}
	return j, err
}

// checkpointAll takes a checkpoint of all processes. If they are those of the last
// one it is not asked before whether they have started others: when they stand still
// it is asked anyway.
func (i *instance) checkpointAll(ctx context.Context, last *zygote.Tree, files func() error) (*zygote.Tree, error) {
	if all, same := i.runningStill(last); same {
		tree, err := i.checkpointRunning(ctx, all, last, files)
		if !errors.Is(err, checkpoint.ErrOthers) {
			return tree, err
		}
		last = nil // it is used up
	}
	all, err := i.running()
	if err != nil {
		return nil, errors.Join(err, last.Close())
	}
	return i.checkpointRunning(ctx, all, last, files)
}

// checkpointRunning takes a checkpoint of processes that can be stopped: those of a
// paused cell are let go for it, and are paused again before they run.
func (i *instance) checkpointRunning(ctx context.Context, all []checkpoint.Running, last *zygote.Tree, files func() error) (*zygote.Tree, error) {
	if !i.Paused() {
		return zygote.Take(i.engine.host, i.cell, all, last, files)
	}
	if err := i.group().Thaw(); err != nil {
		return nil, errors.Join(err, last.Close())
	}
	tree, err := zygote.Take(i.engine.host, i.cell, all, last, func() error { return errors.Join(files(), i.pauseAgain(ctx)) })
	if err != nil {
		return nil, errors.Join(err, i.pauseAgain(context.WithoutCancel(ctx)))
	}
	return tree, nil
}

// reapOrphan waits for a process that no command of the cell has started.
func (child *instance) reapOrphan(p *process) {
	if _, err := p.Wait(); err != nil {
		child.engine.log.Warn("cell: a process could not be waited for", "sandbox", child.ID(), "err", err)
	}
}

// restore has the child's processes go on as those of the checkpoint.
func (child *instance) restore(from origin, tree *zygote.Tree) error {
	streams, err := from.streams()
	if err != nil {
		return err
	}
	j, err := child.joining()
	if err != nil {
		return err
	}
	restored, err := tree.Restore(j, streams)
	if err != nil {
		return err
	}
	for n, fork := range restored.Forks {
		p := &process{Process: fork.Process, cell: child, inside: fork.NSPid, orphan: fork.Orphan} // in a group that has killed nobody yet
		child.live.Store(p, nil)
		if p.orphan {
			go child.reapOrphan(p)
			continue
		}
		if err := from.adopt(child, p, restored.Outside); err != nil {
			return errors.Join(err, restored.Discard(n))
		}
	}
	child.setForked(restored.Forks)
	child.closed = tree.Checkpoint.ClosedConnections()
	return nil
}
