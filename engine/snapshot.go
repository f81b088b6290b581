package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aether/engine/access"
	"aether/engine/state"
	"aether/sandbox"
)

// Snapshot is a sandbox as it was at one moment, kept until it is deleted. Any number of
// sandboxes can be made of it.
type Snapshot struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	// Name is the caller's own word for it. Others may have the same.
	Name string `json:"name,omitempty"`
	// Sandbox is what it was taken of, and Driver, Spec and Template are those of that.
	Sandbox  string       `json:"sandbox"`
	Driver   string       `json:"driver"`
	Spec     sandbox.Spec `json:"spec"`
	Template string       `json:"template,omitempty"`
	// Volumes are those of the sandbox, which are not in the snapshot: what is made of
	// it has them too.
	Volumes []VolumeMount `json:"volumes,omitempty"`
	// Fidelity is what it keeps: files, or memory too.
	Fidelity sandbox.Fidelity `json:"fidelity"`
	// Size is that of its files, some of which it may share with other snapshots.
	Size     int64             `json:"size_bytes"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Created  time.Time         `json:"created"`
}

// SnapshotRequest is what a snapshot is to be.
type SnapshotRequest struct {
	Name string `json:"name,omitempty"`
	// Fidelity is Checkpoint, as is the empty one, or Filesystem.
	Fidelity sandbox.Fidelity  `json:"fidelity,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	// Key makes the call idempotent: the same key gives the same answer.
	Key string `json:"-"`
}

func (r SnapshotRequest) validate(who Caller) error {
	if r.Name != "" && !sandbox.IsName(r.Name, maxName) {
		return sandbox.Invalidf("name", "%.80q must be lower-case letters, digits and dashes, at most %d", r.Name, maxName)
	}
	if err := checkFidelity(r.Fidelity); err != nil {
		return err
	}
	return terms{metadata: r.Metadata, key: r.Key}.validate(who)
}

// Snapshot keeps a sandbox as it is now, which goes on. A paused one that may be resumed
// by use is. The snapshot belongs to the tenant of the sandbox, and is on disk when
// Snapshot returns. Errors: Invalid; NotFound; Conflict if the sandbox is paused or has
// what its driver cannot keep, or for a key that was used for another request; Unsupported
// for a fidelity that its driver cannot keep at all; Exhausted.
func (e *Engine) Snapshot(ctx context.Context, who Caller, id string, req SnapshotRequest) (Snapshot, error) {
	if err := req.validate(who); err != nil {
		return Snapshot{}, err
	}
	ctx, release, err := e.enterFleet(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	defer release()
	source, err := e.fleet.index.find(who, id)
	if err != nil {
		return Snapshot{}, err
	}
	asked := struct {
		Verb, ID string
		SnapshotRequest
	}{"snapshot", id, req}
	ids, err := e.fleet.answers.once(ctx, who, req.Key, asked, func() ([]string, error) { return e.fleet.snapshot(ctx, who, source, req) })
	if errors.Is(err, errUnkept) {
		err = errors.Join(err, e.DeleteSnapshot(ctx, Caller{Operator: true}, ids[0]))
	}
	if err != nil {
		return Snapshot{}, fmt.Errorf("engine: snapshot %s: %w", id, state.Full(err))
	}
	s, err := e.fleet.shelf.find(Caller{Operator: true}, ids[0])
	if err != nil {
		return Snapshot{}, &sandbox.Error{Class: sandbox.Conflict, Op: "engine: snapshot " + id, Field: "key",
			Reason: "the snapshot " + ids[0] + " that this key has made was deleted", Remedy: "use another key"}
	}
	return s.record.Snapshot, nil
}

func (f *fleet) snapshot(ctx context.Context, who Caller, source *box, req SnapshotRequest) ([]string, error) {
	done, err := source.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := f.wake(ctx, who, source); err != nil {
		return nil, err
	}
	grant, err := f.rights.take(who, source.tenant, access.Use{Snapshots: 1})
	if err != nil {
		return nil, err
	}
	s, err := f.store(ctx, who, source, req, grant)
	if err != nil {
		grant.Give()
		return nil, err
	}
	f.shelf.add(s)
	f.tell(s.record.Changes)
	return []string{s.record.ID}, nil
}

// stateName is the directory of a snapshot below its home that its driver has written.
const stateName = "state"

// store writes a snapshot of a box that runs and whose turn the caller has, or leaves
// nothing. The record is written when everything else is on disk.
func (f *fleet) store(ctx context.Context, who Caller, source *box, req SnapshotRequest, grant *access.Grant) (_ *stored, err error) {
	instance := source.instance()
	if instance == nil {
		return nil, source.copy().gone()
	}
	keeper, err := source.keeper(instance)
	if err != nil {
		return nil, err
	}
	s := &stored{record: f.newSnapshot(source.copy(), req), grant: grant}
	home, err := f.snapshots.Begin(s.record.ID)
	defer func() {
		if err != nil {
			err = errors.Join(err, f.unstore(s))
		}
	}()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(home, stateName)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := soon(ctx, func() error { return keeper.Snapshot(ctx, dir, s.record.Fidelity) }); err != nil {
		return nil, err
	}
	if s.record.Size, err = sizeOf(dir); err != nil {
		return nil, err
	}
	err = f.rights.makeRoom(source.tenant, func() error { return grant.Change(f.rights.config.Load().Quota(who), s.record.use()) })
	if err != nil {
		return nil, err
	}
	s.record.Changes = source.stamp([]Event{s.record.event()})
	return s, f.snapshots.Save(s.record.ID, s.record)
}

func (f *fleet) newSnapshot(source record, req SnapshotRequest) snapshotRecord {
	return snapshotRecord{Number: f.shelf.number(), Snapshot: Snapshot{ID: newID(), Tenant: source.Tenant, Name: req.Name,
		Sandbox: source.ID, Driver: source.Driver, Spec: source.Spec, Template: source.Template, Volumes: source.Volumes,
		Fidelity: cmp.Or(req.Fidelity, sandbox.Checkpoint), Metadata: maps.Clone(req.Metadata), Created: time.Now().Round(0)}}
}

// sizeOf is how many bytes the files below a directory have.
func sizeOf(dir string) (size int64, err error) { return sizeBeyond(dir, "") }

// sizeBeyond is how many bytes those files have that another directory, if one is named,
// does not have too: drivers link what snapshots share.
func sizeBeyond(dir, other string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if other != "" {
			same, err := os.Lstat(other + strings.TrimPrefix(path, dir))
			if err == nil && os.SameFile(info, same) {
				return nil
			}
		}
		size += info.Size()
		return nil
	})
	return size, err
}

// unstore removes a snapshot with everything that is its own.
func (f *fleet) unstore(s *stored) error {
	err := f.snapshots.Remove(s.record.ID)
	f.sweeper.note(s.record.Driver)
	return err
}

// GetSnapshot tells what is known of a snapshot. Errors: NotFound, also for what is
// another tenant's.
func (e *Engine) GetSnapshot(_ context.Context, who Caller, id string) (Snapshot, error) {
	if e.fleet == nil {
		return Snapshot{}, errNoState
	}
	s, err := e.fleet.shelf.find(who, id)
	if err != nil {
		return Snapshot{}, err
	}
	return s.record.Snapshot, nil
}

// Snapshots gives a page of the snapshots that the caller may see. Errors: Invalid.
func (e *Engine) Snapshots(_ context.Context, who Caller, q SnapshotQuery) (SnapshotPage, error) {
	if e.fleet == nil {
		return SnapshotPage{}, errNoState
	}
	return e.fleet.shelf.page(who, q)
}

// DeleteSnapshot removes a snapshot, when those who are being made of it have been made.
// What was made of it lives on. Errors: NotFound.
func (e *Engine) DeleteSnapshot(ctx context.Context, who Caller, id string) error {
	_, release, err := e.enterFleet(ctx)
	if err != nil {
		return err
	}
	defer release()
	s, err := e.fleet.shelf.find(who, id)
	if err != nil {
		return err
	}
	s.using.Lock()
	defer s.using.Unlock()
	if s.deleted {
		return noSnapshot(id)
	}
	if err := e.fleet.unstore(s); err != nil {
		return fmt.Errorf("engine: delete snapshot %s: %w", id, err)
	}
	s.deleted = true
	e.fleet.shelf.remove(s)
	s.grant.Give()
	return nil
}
