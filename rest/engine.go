package rest

import (
	"context"
	"iter"
	"net"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/sandbox"
)

// Engine is what the door opens to: the methods of *engine.Engine that callers use. All
// of them answer NotFound for what is another tenant's.
type Engine interface {
	Create(ctx context.Context, who engine.Caller, req engine.CreateRequest) (engine.Sandbox, error)
	Get(ctx context.Context, who engine.Caller, id string) (engine.Sandbox, error)
	List(ctx context.Context, who engine.Caller, q engine.Query) (engine.Page, error)
	Destroy(ctx context.Context, who engine.Caller, id string) error
	SetTimeout(ctx context.Context, who engine.Caller, id string, after time.Duration, then engine.Then) (engine.Sandbox, error)
	SetMetadata(ctx context.Context, who engine.Caller, id string, m map[string]string) (engine.Sandbox, error)
	// Guest gives a client of the guest service, which is released by calling the
	// function.
	Guest(ctx context.Context, who engine.Caller, id string) (*guest.Client, func(), error)
	// Dial connects to the guest service.
	Dial(ctx context.Context, who engine.Caller, id string) (net.Conn, error)
	Stats(ctx context.Context, who engine.Caller, id string) (sandbox.Stats, error)
	Console(ctx context.Context, who engine.Caller, id string) (end []byte, cut bool, err error)
	SetNetwork(ctx context.Context, who engine.Caller, id string, n sandbox.Network) (engine.Sandbox, error)
	NetworkLog(ctx context.Context, who engine.Caller, id string) (list []sandbox.NetworkDecision, missed int64, err error)
	Pause(ctx context.Context, who engine.Caller, id string, keep sandbox.Fidelity) (engine.Sandbox, error)
	Resume(ctx context.Context, who engine.Caller, id string, give sandbox.Fidelity) (engine.Sandbox, error)
	Fork(ctx context.Context, who engine.Caller, id string, req engine.ForkRequest) ([]engine.Sandbox, error)
	Snapshot(ctx context.Context, who engine.Caller, id string, req engine.SnapshotRequest) (engine.Snapshot, error)
	GetSnapshot(ctx context.Context, who engine.Caller, id string) (engine.Snapshot, error)
	Snapshots(ctx context.Context, who engine.Caller, q engine.SnapshotQuery) (engine.SnapshotPage, error)
	DeleteSnapshot(ctx context.Context, who engine.Caller, id string) error
	Rollback(ctx context.Context, who engine.Caller, id string, req engine.RollbackRequest) (engine.Sandbox, error)
	Mark(ctx context.Context, who engine.Caller, id, name string) (engine.Mark, error)
	Marks(ctx context.Context, who engine.Caller, id string) ([]engine.Mark, error)
	DeleteMark(ctx context.Context, who engine.Caller, id, name string) error
	PrepareTemplate(ctx context.Context, who engine.Caller, req engine.TemplateRequest, notify func(step string)) (engine.TemplateInfo, error)
	Promote(ctx context.Context, who engine.Caller, id string, req engine.PromoteRequest) (engine.TemplateInfo, error)
	GetTemplate(ctx context.Context, who engine.Caller, template string) (engine.TemplateInfo, error)
	ListTemplates(ctx context.Context, who engine.Caller, q engine.TemplateQuery) (engine.TemplatePage, error)
	ChangeTemplate(ctx context.Context, who engine.Caller, template string, change engine.TemplateChange) (engine.TemplateInfo, error)
	RemoveTemplate(ctx context.Context, who engine.Caller, template string) error
	TemplateTree(ctx context.Context, who engine.Caller, template string) ([]engine.Node, error)
	// Events gives the history after a number, and then what happens until the
	// context ends; for one that has ended already, the history alone.
	Events(ctx context.Context, who engine.Caller, after uint64) iter.Seq2[engine.Event, error]

	Volumes
	Secrets
	Upkeep
}

// Authenticator knows whose a key is. Errors: Denied for a key that is unknown, expired
// or revoked.
type Authenticator interface {
	Authenticate(ctx context.Context, key string) (engine.Caller, error)
}

// System is an isolation system and whether this host can run it.
type System struct {
	System   string           `json:"system"`
	Boundary sandbox.Boundary `json:"boundary"`
	// Driver says that this build has one; without it, Verbs and Networks are nil.
	Driver   bool              `json:"driver"`
	Verbs    *sandbox.Verbs    `json:"verbs,omitempty"`
	Networks *sandbox.Networks `json:"networks,omitempty"`
	sandbox.Report
}

// Systems is the answer of /v1/systems.
type Systems struct {
	Systems []System `json:"systems"`
}

// Forked is the answer of a fork.
type Forked struct {
	Sandboxes []engine.Sandbox `json:"sandboxes"`
}

// PauseRequest is what is kept of a sandbox that is paused: its memory with its files,
// unless it says otherwise.
type PauseRequest struct {
	Fidelity sandbox.Fidelity `json:"fidelity,omitempty"`
}

// ResumeRequest is with what a paused sandbox goes on: all that was kept, unless it says
// otherwise.
type ResumeRequest struct {
	Fidelity sandbox.Fidelity `json:"fidelity,omitempty"`
}

// Change is what a PATCH of a sandbox changes: what is absent stays as it is.
type Change struct {
	// Timeout is the time to live from now, and zero no end. Then is what comes then.
	Timeout *time.Duration `json:"timeout_ns,omitempty"`
	Then    engine.Then    `json:"then,omitempty"`
	// Metadata replaces all of it.
	Metadata map[string]string `json:"metadata,omitzero"`
}

// Call is one request as the audit trail has it, whether it was refused or not.
type Call struct {
	Time time.Time
	// Who is empty if nobody could be made out. From is the address it came from.
	Who  engine.Caller
	From string
	// Operation is the name of the route, as "sandbox.create", and Sandbox the id in
	// its path or in its answer, which of a snapshot's routes is that of the snapshot, or
	// the name of what else it is about.
	Operation string
	Sandbox   string
	// Status is that of the answer, and Err why it is a refusal, or was cut short.
	Status int
	Err    error
	Took   time.Duration
}
