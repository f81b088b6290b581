package engine

import (
	"time"

	"aether/engine/access"
	"aether/sandbox"
)

// Caller is on whose behalf a method of the engine is called.
type Caller = access.Caller

// State is what a sandbox is doing.
type State string

const (
	Running State = "running"
	// Paused: it is a checkpoint, and nothing of it runs.
	Paused State = "paused"
	Ended  State = "ended"
)

// Then is what happens to a sandbox whose time is over.
type Then string

const (
	ThenKill  Then = "kill"
	ThenPause Then = "pause"
	// ThenPauseFiles is a pause that keeps its files and not its memory.
	ThenPauseFiles Then = "pause_files"
)

// CreateRequest is what a sandbox is to be.
type CreateRequest struct {
	// Spec is what it needs. Its ID is empty: the engine mints ids.
	Spec sandbox.Spec `json:"spec"`
	// Driver runs it; empty is the best that holds what Spec needs.
	Driver string `json:"driver,omitempty"`
	// Template or Snapshot is what it starts from, instead of Spec's image.
	Template string `json:"template,omitempty"`
	Snapshot string `json:"snapshot,omitempty"`
	// Fidelity is what of the snapshot it is given: all, if it is empty, or the files
	// alone.
	Fidelity sandbox.Fidelity `json:"fidelity,omitempty"`
	// Volumes are those of its tenant that are shown inside.
	Volumes []VolumeMount `json:"volumes,omitempty"`
	// Metadata is the caller's own, to be found again by.
	Metadata map[string]string `json:"metadata,omitempty"`
	// Timeout is its time to live from now, after which comes Then. Zero is no end.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	Then    Then          `json:"then,omitempty"`
	// Keep has it outlive the engine: paused at the end, resumed by the next one.
	Keep bool `json:"keep,omitempty"`
	// AutoResume resumes it when somebody uses it while it is paused.
	AutoResume bool `json:"auto_resume,omitempty"`
	// Key makes the call idempotent: the same key gives the same answer.
	Key string `json:"-"`
}

// ForkRequest is what the children of a sandbox are to be.
type ForkRequest struct {
	// Count is how many; zero is one.
	Count int `json:"count,omitempty"`
	// Metadata, Timeout, Then, Keep and AutoResume are those of each child, as in a
	// CreateRequest; nothing of them is the source's.
	Metadata   map[string]string `json:"metadata,omitempty"`
	Timeout    time.Duration     `json:"timeout_ns,omitempty"`
	Then       Then              `json:"then,omitempty"`
	Keep       bool              `json:"keep,omitempty"`
	AutoResume bool              `json:"auto_resume,omitempty"`
	// Network is what the children may reach, of the egress mode; nil is what the source
	// may.
	Network *sandbox.Network `json:"network,omitempty"`
	// Key makes the call idempotent: the same key gives the same answer.
	Key string `json:"-"`
}

// Sandbox is what the engine knows of one, at one moment.
type Sandbox struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	State  State  `json:"state"`
	// Driver runs it, and Why says how that was chosen.
	Driver   string            `json:"driver"`
	Why      string            `json:"why,omitempty"`
	Spec     sandbox.Spec      `json:"spec"`
	Volumes  []VolumeMount     `json:"volumes,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	// Template, Snapshot and Parent are what it was made of.
	Template string `json:"template,omitempty"`
	Snapshot string `json:"snapshot,omitempty"`
	Parent   string `json:"parent,omitempty"`
	// Resident is what its template left running, and Took how long the fork took that made
	// it.
	Resident *Resident     `json:"resident,omitempty"`
	Took     time.Duration `json:"fork_ns,omitempty"`
	// Renewed is what it was given of its own, as a copy of another, before anything in it
	// could run: entropy, clock, hostname, machine_id, generation_id, connections.
	Renewed []string  `json:"renewed,omitempty"`
	Created time.Time `json:"created"`
	// Expires is when its time is over, and Then what happens then.
	Expires    time.Time `json:"expires,omitzero"`
	Then       Then      `json:"then,omitempty"`
	Keep       bool      `json:"keep,omitempty"`
	AutoResume bool      `json:"auto_resume,omitempty"`
	// Fidelity is what was kept of one that is paused, and Reason why that is less than
	// was asked for, or why it could not be resumed.
	Fidelity sandbox.Fidelity `json:"fidelity,omitempty"`
	Reason   string           `json:"reason,omitempty"`
	// Exit and EndedAt are of one that has ended.
	Exit    *sandbox.Exit `json:"exit,omitempty"`
	EndedAt time.Time     `json:"ended_at,omitzero"`

	// Instance is the number of the one that serves it, or will if there is none now. A
	// connection to the guest service is to one of them, and of no use to the next.
	Instance int `json:"-"`
}

// Query chooses sandboxes. Everything that is set must hold.
type Query struct {
	Tenant   string // of operators; others see their own
	States   []State
	Driver   string
	Template string
	Metadata map[string]string
	// SpecMetadata is that of the Spec, which whoever makes sandboxes for others marks
	// them by.
	SpecMetadata map[string]string
	// Since leaves out what was made before, and Oldest turns the order around.
	Since  time.Time
	Oldest bool
	// After is the Next of the page before, and Limit the length of a page, 100 at
	// most and by default.
	After string
	Limit int
}

// Page is a part of a list, newest first unless it was asked for otherwise.
type Page struct {
	Sandboxes []Sandbox `json:"sandboxes"`
	// Next is empty on the last page.
	Next string `json:"next,omitempty"`
}

// EventKind is what happened.
type EventKind string

const (
	EventCreated     EventKind = "created"
	EventStarted     EventKind = "started"
	EventPaused      EventKind = "paused"
	EventResumed     EventKind = "resumed"
	EventForked      EventKind = "forked"
	EventSnapshotted EventKind = "snapshotted"
	EventRolledBack  EventKind = "rolled_back"
	EventEnded       EventKind = "ended"
	// EventNetworkChanged: what it may reach is another policy.
	EventNetworkChanged EventKind = "network_changed"
	EventLimitReached   EventKind = "limit_reached"
	EventPoolLow        EventKind = "pool_low"

	// Of volumes, which Detail names.
	EventVolumeCreated EventKind = "volume_created"
	EventVolumeRemoved EventKind = "volume_removed"
)

// Event is one change. Numbers grow by one for each, over restarts too.
type Event struct {
	Number  uint64            `json:"number"`
	Time    time.Time         `json:"time"`
	Kind    EventKind         `json:"kind"`
	Tenant  string            `json:"tenant"`
	Sandbox string            `json:"sandbox,omitempty"`
	Detail  map[string]string `json:"detail,omitempty"`
}
