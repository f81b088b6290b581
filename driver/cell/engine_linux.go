package cell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"aether/driver/lifetime"
	"aether/image"
	"aether/internal/host/cgroup"
	"aether/internal/host/confine"
	"aether/internal/host/storedir"
	"aether/network"
	"aether/sandbox"
)

var (
	_ sandbox.Closer = (*Driver)(nil)
	_ sandbox.Reaper = (*Driver)(nil)
)

// engine is what a program that makes cells holds as long as it lives.
type engine struct {
	network   *network.Service // nil without networks
	once      sync.Once
	err       error
	host      *confine.Host
	images    *image.Store
	bases     *bases
	groups    *groups
	disks     *disks
	snapshots *snapshots
	log       *slog.Logger // for what fails in the background
	// unlimited is why no limits can be enforced, or nil.
	unlimited error

	// gate is held for reading by those who make a cell: Close waits for them.
	gate   sync.RWMutex
	closed bool
	living sync.Map // of *instance
}

var errClosed = &sandbox.Error{Class: sandbox.Conflict, Op: "cell", Reason: "the driver is closed"}

// open gets the engine ready at the first need of it.
func (d *Driver) open() (*engine, error) { return d.openWith(func(*bases) {}) }

// openWith has first run while the engine is got ready, if it is not yet: as soon as there
// is a host to make cells on, on which it may get images ready too.
func (d *Driver) openWith(first func(*bases)) (*engine, error) {
	e := &d.engine
	e.once.Do(func() { e.err = e.start(d.opts, first) })
	return e, e.err
}

func (e *engine) start(opts Options, first func(*bases)) (err error) {
	e.log, e.network = cmp.Or(opts.Logger, slog.Default()), opts.Network
	if err := storedir.Prepare(opts.RunDir); err != nil {
		return fmt.Errorf("cell: %w", err)
	}
	e.disks, e.snapshots = &disks{root: opts.DiskDir}, &snapshots{dir: opts.SnapshotDir}
	if err := e.acquire(opts, first); err != nil {
		return err
	}
	if opts.Ahead > 0 {
		e.bases.newWarm = func(base *confine.Base, networked bool) *warmCells {
			return e.newWarmCells(base, opts.Ahead, networked)
		}
	}
	return nil
}

// acquire gets what the engine holds. The parts do not need each other and mostly
// wait for the kernel, so they are got at once. A failure gives all of them back.
func (e *engine) acquire(opts Options, first func(*bases)) error {
	var files, groups, host error
	var parts sync.WaitGroup
	parts.Go(func() { files = e.openFiles(opts) })
	parts.Go(func() { groups = e.openGroups(opts) })
	if host = e.openHost(opts); host == nil {
		first(e.bases)
	}
	parts.Wait()
	err := cmp.Or(groups, files, host)
	if err == nil {
		return nil
	}
	if e.host != nil {
		e.bases.close()
		e.host.Close()
		e.host = nil
	}
	return errors.Join(err, e.groups.close(context.Background()))
}

func (e *engine) openFiles(opts Options) (err error) {
	if _, err := e.disks.reap(); err != nil {
		return fmt.Errorf("cell: %w", err)
	}
	e.images, err = opts.Images()
	return err
}

// openGroups also removes what programs that were killed left; an ordinary user
// has no groups.
func (e *engine) openGroups(opts Options) (err error) {
	if _, err := cgroup.Reap(context.Background(), opts.RunDir); err != nil {
		return fmt.Errorf("cell: remove what a dead program left: %w", err)
	}
	if e.groups, err = newGroups(opts.RunDir); sandbox.ClassOf(err) == sandbox.Unavailable {
		e.unlimited, err = err, nil
	}
	return err
}

func (e *engine) openHost(opts Options) (err error) {
	if e.host, err = confine.Open(confine.Options{Dir: opts.RunDir, KeepNetworks: opts.Ahead > 0, Threads: opts.Threads, Logger: e.log}); err != nil {
		return unavailable(err)
	}
	e.bases, err = newBases(e.host, opts.RunDir, e.log)
	return err
}

// Close ends every cell of the driver and removes what they held. It is
// idempotent, and no cell can be made afterwards.
func (d *Driver) Close(ctx context.Context) error {
	e := &d.engine
	e.once.Do(func() { e.err = errClosed })
	e.gate.Lock()
	defer e.gate.Unlock()
	if e.closed || e.host == nil {
		return nil
	}
	e.closed = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
	defer cancel()
	err := e.destroyAll(ctx)
	e.bases.close()
	// No process is left in a group, so that the host need not be closed before.
	var host sync.WaitGroup
	host.Go(e.host.Close)
	err = errors.Join(err, e.groups.close(ctx), e.disks.close(), e.snapshots.close())
	host.Wait()
	return err
}

// destroyAll first kills all and then waits for each.
func (e *engine) destroyAll(ctx context.Context) (err error) {
	for i := range e.living.Range {
		i.(*instance).End(sandbox.Destroyed)
	}
	for i := range e.living.Range {
		err = errors.Join(err, i.(*instance).Destroy(ctx))
	}
	return err
}

// Reap implements sandbox.Reaper: what the kernel does not remove when a
// program is killed are its cgroups, the disks of its cells and what snapshots
// were unpacked for them.
func (d *Driver) Reap(ctx context.Context) (int, error) {
	if err := storedir.Prepare(d.opts.RunDir); err != nil {
		return 0, fmt.Errorf("cell: %w", err)
	}
	groups, err := cgroup.Reap(ctx, d.opts.RunDir)
	if err != nil {
		return groups, err
	}
	disks, err := (&disks{root: d.opts.DiskDir}).reap()
	if err != nil {
		return groups + disks, err
	}
	kept, err := (&snapshots{dir: d.opts.SnapshotDir}).reap(ctx)
	return groups + disks + kept, err
}
