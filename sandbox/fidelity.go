package sandbox

import (
	"context"
	"time"
)

// Fidelity says how much of a running sandbox a verb carries over.
type Fidelity string

const (
	// Filesystem: files only; processes start anew.
	Filesystem Fidelity = "filesystem"
	// Checkpoint: files and memory, copied through an image.
	Checkpoint Fidelity = "checkpoint"
	// Live: files and memory, with pages shared copy-on-write.
	Live Fidelity = "live"
)

// Verbs are what the sandboxes of a driver can do beyond running commands. A
// fidelity is empty where there is no such verb, and else the most that it carries
// over. That a host lacks what a verb needs is not known before it is tried.
type Verbs struct {
	Pause    bool     `json:"pause"`
	Snapshot Fidelity `json:"snapshot,omitempty"`
	Restore  Fidelity `json:"restore,omitempty"`
	Fork     Fidelity `json:"fork,omitempty"`
}

// VerbsOf finds out what a driver and a sandbox of it implement.
func VerbsOf(d Driver, i Instance) (v Verbs) {
	_, v.Pause = i.(Pauser)
	if s, ok := i.(Snapshotter); ok {
		v.Snapshot = s.SnapshotFidelity()
	}
	if r, ok := d.(Restorer); ok {
		v.Restore = r.RestoreFidelity()
	}
	if f, ok := i.(Forker); ok {
		v.Fork = f.ForkFidelity()
	}
	return v
}

// Pauser is an Instance that can stop and continue all of its processes.
type Pauser interface {
	// Pause returns when nothing inside runs any more. Pausing a paused sandbox
	// is a Conflict; so is resuming a running one.
	Pause(context.Context) error
	Resume(context.Context) error
}

// Snapshotter is an Instance whose state can be kept. The Instance goes on.
type Snapshotter interface {
	// SnapshotFidelity is the most that Snapshot keeps on this host.
	SnapshotFidelity() Fidelity
	// Snapshot writes the state under dir, which exists and is empty: the files, and
	// for Checkpoint the memory too. It is on disk when Snapshot returns. A failed
	// Snapshot leaves dir empty and the sandbox as it was. Every Snapshotter keeps
	// Filesystem. Errors: Unsupported for another fidelity that the driver cannot keep,
	// and Conflict where only this sandbox cannot be kept so now.
	Snapshot(ctx context.Context, dir string, keep Fidelity) error
}

// Restorer is a Driver that makes sandboxes from what its Snapshotter wrote.
type Restorer interface {
	// RestoreFidelity is the most that Restore gives.
	RestoreFidelity() Fidelity
	// Restore makes a sandbox from dir, which stays usable for further restores: of
	// its files, whatever was kept beside them, or, for Checkpoint, such that its
	// processes go on. Only the identity,
	// limits, network policy, mounts, lifetime and metadata of the Spec apply, and, where
	// files are wanted alone, its command defaults, over those of the source. Its
	// image is empty; where files are wanted alone, it may be that of the snapshot,
	// by which the files are had also if that image is another by now. What was mounted is not in a snapshot: whoever restores
	// memory gives every mount of the source again, at the same target. Errors:
	// Conflict for memory that was not kept; Unsupported for a fidelity that the
	// driver cannot give.
	Restore(ctx context.Context, dir string, give Fidelity, spec Spec) (Instance, error)
}

// RestoreChecker is a Restorer that can tell beforehand what Restore would refuse.
type RestoreChecker interface {
	// CheckRestore looks, without making anything, whether what was kept in dir can be
	// restored on this host as it is now. What it cannot look at without effort, it does
	// not: nil is no promise. Errors: those of Restore.
	CheckRestore(ctx context.Context, dir string, give Fidelity) error
}

// Forker is an Instance that can be branched while it runs.
type Forker interface {
	ForkFidelity() Fidelity
	// Fork makes one child for each Spec, of which the identity, limits, network
	// policy, lifetime and metadata apply. Children have the mounts of the source,
	// and those that their Spec adds. Either all children live or none do, and the source goes on unchanged in
	// both cases.
	Fork(ctx context.Context, children []Spec) ([]Instance, error)
}

// ForkReporter is a Forker that knows what a fork cost its source, for those who
// measure.
type ForkReporter interface {
	// LastForkPause is how long the last Fork kept the processes of the source
	// from running; zero before the first, and where they were paused anyway.
	LastForkPause() time.Duration
}

// RenewalReporter is an Instance that knows what it was given of its own, as a copy of
// another, before anything in it could run.
type RenewalReporter interface {
	// Renewed names it: entropy, clock, hostname, machine_id, generation_id, connections.
	// It is nil for an Instance that is no copy.
	Renewed() []string
}

// ConnectionReporter is an Instance whose connections to elsewhere are nobody's but its
// own: whoever goes on from a checkpoint of it finds them closed.
type ConnectionReporter interface {
	// ConnectionsClosed is how many were open in the last checkpoint that the sandbox
	// came from, by Fork or Restore, or that was taken of it since, by Fork or Snapshot.
	ConnectionsClosed() int
}
