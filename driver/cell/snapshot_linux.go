package cell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"

	"aether/image"
	"aether/image/snapshot"
	"aether/internal/host/inroot"
	"aether/sandbox"
)

var (
	_ sandbox.Snapshotter = (*instance)(nil)
	_ sandbox.Restorer    = (*Driver)(nil)
)

// snapshots opens the store of snapshots at the first need of it.
type snapshots struct {
	dir string

	mu    sync.Mutex
	store *snapshot.Store
}

func (s *snapshots) open() (*snapshot.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil {
		return s.store, nil
	}
	var err error
	s.store, err = snapshot.Open(s.dir)
	return s.store, err
}

// layerOf is the layer that a root has on top, if it is a snapshot's. letLayer must follow.
func (s *snapshots) layerOf(root image.Root) *snapshot.Layer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store == nil {
		return nil // and none can have been made
	}
	return s.store.LayerOf(root.Layers)
}

// letLayer lets go of a layer, if it is one, and with the last use of it of what is kept
// ready for more cells of it.
func (e *engine) letLayer(layer *snapshot.Layer, root image.Root) {
	last, err := layer.Release()
	if last {
		e.bases.forget(root)
	}
	if err != nil { // it is removed when this program has ended
		e.log.Warn("cell: a layer that is not used any more could not be let go of", "err", err)
	}
}

func (s *snapshots) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store == nil {
		return nil
	}
	return s.store.Close()
}

// reap removes what no snapshot and no living program needs.
func (s *snapshots) reap(ctx context.Context) (int, error) {
	if _, err := os.Lstat(s.dir); os.IsNotExist(err) {
		return 0, nil
	}
	store, err := s.open()
	if err != nil {
		return 0, err
	}
	return store.Reap(ctx)
}

// SnapshotFidelity implements sandbox.Snapshotter.
func (i *instance) SnapshotFidelity() sandbox.Fidelity { return mostKept }

// Snapshot implements sandbox.Snapshotter. The cell stands still while its writes
// are copied, and runs again while they are hashed and made durable. Errors:
// Conflict where a running cell cannot be paused, for processes that cannot be
// kept and for a dir that is not empty; Unsupported for a fidelity that cells do
// not have on this architecture.
func (i *instance) Snapshot(ctx context.Context, dir string, keep sandbox.Fidelity) error {
	if err := supported(keep); err != nil {
		return fmt.Errorf("cell: snapshot: %w", err)
	}
	store, err := i.engine.snapshots.open()
	if err != nil {
		return fmt.Errorf("cell: %w", err)
	}
	layer := store.LayerOf(i.root.Layers)
	defer i.engine.letLayer(layer, i.root)
	draft, err := i.take(ctx, store, keep)
	if err != nil {
		return fmt.Errorf("cell: snapshot: %w", err)
	}
	draft.Over(i.relatives().common())
	rec := snapshot.Record{Image: i.spec.Image, Digest: i.root.Digest, Command: i.spec.Command}
	if keep == sandbox.Checkpoint { // of what programs have read, and of nothing else
		rec.Authority = i.network.AuthorityKey()
	}
	if err := draft.Commit(ctx, dir, layer, rec); err != nil {
		return fmt.Errorf("cell: %w", err)
	}
	if keep == sandbox.Checkpoint {
		i.learn(ctx, store, dir)
	}
	return nil
}

// learn has the snapshot in dir be what later ones of relatives are kept over. They are
// only larger if it cannot be.
func (i *instance) learn(ctx context.Context, store *snapshot.Store, dir string) {
	rec, err := snapshot.Read(dir)
	if err == nil {
		err = i.relatives().learn(ctx, store, rec)
	}
	if err != nil {
		i.engine.log.Warn("cell: the next snapshots will be kept whole", "sandbox", i.ID(), "err", err)
	}
}

// take copies everything that a snapshot is to keep.
func (i *instance) take(ctx context.Context, store *snapshot.Store, keep sandbox.Fidelity) (draft *snapshot.Draft, err error) {
	if keep == sandbox.Checkpoint {
		return i.takeRunning(ctx, store)
	}
	err = i.still(ctx, func() error {
		draft, err = i.takeFiles(ctx, store)
		return err
	})
	if err != nil && draft != nil { // but the cell could not be resumed
		return nil, errors.Join(err, draft.Discard())
	}
	return draft, err
}

// supported refuses to keep or to give what cells cannot.
func supported(f sandbox.Fidelity) error {
	if f == sandbox.Filesystem || f == mostKept {
		return nil
	}
	return &sandbox.Error{Class: sandbox.Unsupported, Field: "fidelity", Remedy: "keep their files (filesystem), or use machines (qemu-kvm)",
		Reason: fmt.Sprintf("snapshots of cells cannot be of fidelity %q on %s", f, runtime.GOARCH)}
}

// takeFiles copies what the cell has written. Nothing may run there.
func (i *instance) takeFiles(ctx context.Context, store *snapshot.Store) (*snapshot.Draft, error) {
	upper, err := i.cell.Upper()
	if err != nil {
		return nil, err
	}
	defer upper.Close()
	return store.Take(ctx, upper, i.cell.Identity().FromHost)
}

// still runs fn while nothing runs in the cell.
func (i *instance) still(ctx context.Context, fn func() error) error {
	return i.Living(func(paused bool) (err error) {
		group, err := i.occupy()
		if err != nil {
			return err
		}
		if group == nil {
			return i.idle(fn)
		}
		if !paused {
			if err := group.Freeze(ctx); err != nil {
				return err
			}
			defer func() { err = cmp.Or(err, group.Thaw()) }()
		}
		return fn()
	})
}

// idle runs fn in a cell that cannot be paused, if nothing runs there before and
// after.
func (i *instance) idle(fn func() error) error {
	if err := i.mustBeIdle(); err != nil {
		return err
	}
	if err := fn(); err != nil {
		return err
	}
	return i.mustBeIdle()
}

func (i *instance) mustBeIdle() error {
	dir, err := i.cell.Root()
	if err != nil {
		return err
	}
	root := inroot.New(dir)
	defer root.Close()
	proc, err := root.OpenDir("/proc")
	if err != nil {
		return err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != 1 {
			return &sandbox.Error{Class: sandbox.Conflict, Op: "snapshot", Retry: true, Err: i.engine.unlimited,
				Reason: "processes run in the cell, which cannot be paused without cgroups", Remedy: "end them first, or run aether as root"}
		}
	}
	return nil
}

// RestoreFidelity implements sandbox.Restorer.
func (d *Driver) RestoreFidelity() sandbox.Fidelity { return mostKept }

// Restore implements sandbox.Restorer: the files of the snapshot are one more
// layer below the new cell's own. Commands have the defaults of the cell that was
// kept, and of files alone those that are stated over them. Errors: Conflict if the image is not any more what it was, unless it is named
// and files are wanted alone; if processes are wanted that were not kept or cannot go on on this host; NotFound or Invalid
// for a snapshot that does not exist or is damaged; Unsupported as Snapshot.
func (d *Driver) Restore(ctx context.Context, dir string, give sandbox.Fidelity, spec sandbox.Spec) (sandbox.Instance, error) {
	i, err := d.restore(ctx, dir, give, spec)
	if err != nil {
		return nil, fmt.Errorf("cell: restore: %w", err)
	}
	return i, nil
}

func (d *Driver) restore(ctx context.Context, dir string, give sandbox.Fidelity, spec sandbox.Spec) (*instance, error) {
	if err := supported(give); err != nil {
		return nil, err
	}
	rec, err := snapshot.Read(dir)
	if err != nil {
		return nil, err
	}
	changed := spec.Image != ""
	if changed && (give != sandbox.Filesystem || spec.Image != cmp.Or(rec.Image, sandbox.HostImage)) {
		return nil, sandbox.Invalidf("image", "a restored sandbox has that of its snapshot")
	}
	if give == sandbox.Filesystem {
		rec.Command = rec.Command.With(spec.Command)
	}
	spec.Image, spec.Command = rec.Image, rec.Command
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	e, err := d.open()
	if err != nil {
		return nil, err
	}
	if err := e.accepts(spec); err != nil {
		return nil, err
	}
	root, err := e.images.Resolve(ctx, rec.Image, nil)
	if err == nil && !changed {
		err = sameImage(rec, root)
	}
	if err != nil {
		return nil, err
	}
	i, err := e.restore(ctx, dir, rec, give, spec, root)
	if err != nil {
		return nil, err
	}
	if err := i.settleNetwork(ctx, true); err != nil {
		return nil, errors.Join(err, i.Destroy(ctx))
	}
	return i, nil
}

func (e *engine) restore(ctx context.Context, dir string, rec snapshot.Record, give sandbox.Fidelity, spec sandbox.Spec, root image.Root) (*instance, error) {
	store, err := e.snapshots.open()
	if err != nil {
		return nil, err
	}
	layer, err := store.Layer(ctx, dir, rec)
	if err != nil {
		return nil, err
	}
	root.Layers = append(root.Layers, layer.Path)
	defer e.letLayer(layer, root) // the cell has it too
	if give == sandbox.Filesystem {
		rec.Authority = nil // which nothing of it has read
	}
	i, err := e.create(ctx, spec, root, rec.Authority)
	if err != nil || give == sandbox.Filesystem {
		return i, err
	}
	if err := i.restoreRunning(ctx, dir, rec); err != nil {
		return nil, errors.Join(err, i.Destroy(ctx))
	}
	i.learn(ctx, store, dir)
	return i, nil
}
