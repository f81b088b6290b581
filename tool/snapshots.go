package tool

import (
	"context"
	"time"

	"aether/engine"
	"aether/sandbox"
)

// Snapshot is a sandbox as it was at one moment, on disk.
type Snapshot struct {
	ID      string    `json:"snapshot"`
	Name    string    `json:"name,omitempty"`
	Sandbox string    `json:"sandbox"`
	Holds   string    `json:"holds"`
	Bytes   int64     `json:"bytes"`
	Created time.Time `json:"created"`
}

// Snapshots is a list of them, newest first. Next is the after of the next page.
type Snapshots struct {
	Snapshots []Snapshot `json:"snapshots"`
	Next      string     `json:"next,omitempty"`
}

func snapshotOf(s engine.Snapshot) Snapshot {
	return Snapshot{s.ID, s.Name, s.Sandbox, string(s.Fidelity), s.Size, s.Created}
}

type snapshotArgs struct {
	fidelityArgs
	Name string `json:"name,omitempty"`
}

type snapshotListArgs struct {
	Sandbox string `json:"sandbox,omitempty"`
	After   string `json:"after,omitempty" jsonschema:"next of the page before"`
}

type restoreArgs struct {
	Snapshot  string `json:"snapshot"`
	FilesOnly bool   `json:"files_only,omitempty"`
	terms
}

type snapshotID struct {
	Snapshot string `json:"snapshot"`
}

func snapshotTools() []*Tool {
	return []*Tool{
		define("snapshot_create", Writes, "Keep a sandbox as it is now on disk, memory included; it goes on. For sandbox_rollback and snapshot_restore.", (*Session).snapshot).inCompact(),
		define("snapshot_list", Reads, "List snapshots, newest first.", (*Session).snapshots),
		define("snapshot_restore", Writes, "Make another sandbox that goes on from a snapshot.", (*Session).restore),
		define("snapshot_delete", Destroys, "Delete a snapshot. What was made of it lives on.", (*Session).deleteSnapshot),
	}
}

func (s *Session) snapshot(ctx context.Context, in snapshotArgs) (Snapshot, error) {
	if _, err := s.enter(ctx, in.Sandbox, 0); err != nil {
		return Snapshot{}, err
	}
	made, err := s.opts.Backend.Snapshot(ctx, in.Sandbox, engine.SnapshotRequest{Name: in.Name, Fidelity: fidelityOf(in.FilesOnly)})
	if err != nil {
		if in.FilesOnly {
			return Snapshot{}, err
		}
		return Snapshot{}, advise(err, []sandbox.Class{sandbox.Conflict, sandbox.Unsupported}, "snapshot_create", map[string]any{"sandbox": in.Sandbox, "files_only": true})
	}
	if made.Fidelity != sandbox.Filesystem {
		s.state.copyCodes(in.Sandbox, ofSnapshot(made.ID), false)
	}
	return snapshotOf(made), nil
}

func (s *Session) snapshots(ctx context.Context, in snapshotListArgs) (list Snapshots, err error) {
	page, err := s.opts.Backend.Snapshots(ctx, engine.SnapshotQuery{Sandbox: in.Sandbox, After: in.After, Limit: 50})
	list = Snapshots{[]Snapshot{}, page.Next}
	for _, one := range page.Snapshots {
		list.Snapshots = append(list.Snapshots, snapshotOf(one))
	}
	return list, err
}

// noSnapshot says where to look for those that there are.
func noSnapshot(err error) error {
	return advise(err, []sandbox.Class{sandbox.NotFound}, "snapshot_list", map[string]any{})
}

func (s *Session) restore(ctx context.Context, in restoreArgs) (Sandbox, error) {
	timeout, metadata, err := s.apply(in.terms)
	if err != nil {
		return Sandbox{}, err
	}
	if in.Snapshot == "" {
		return Sandbox{}, sandbox.Invalidf("snapshot", "it is empty")
	}
	made, err := s.opts.Backend.Create(ctx, engine.CreateRequest{Snapshot: in.Snapshot, Fidelity: fidelityOf(in.FilesOnly), Timeout: timeout, Metadata: metadata, Keep: in.Keep})
	if err != nil {
		return Sandbox{}, noSnapshot(err)
	}
	s.own(in.terms, made)
	if !in.FilesOnly {
		s.state.copyCodes(ofSnapshot(in.Snapshot), made.ID, true)
	}
	return viewOf(made), nil
}

func (s *Session) deleteSnapshot(ctx context.Context, in snapshotID) (Done, error) {
	if err := s.opts.Backend.DeleteSnapshot(ctx, in.Snapshot); err != nil {
		return Done{}, noSnapshot(err)
	}
	s.state.forget(ofSnapshot(in.Snapshot))
	return Done{"deleted"}, nil
}
