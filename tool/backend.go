package tool

import (
	"context"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/sandbox"
)

// Backend is what tools act on, on behalf of one caller: an engine in this program (Of),
// or a daemon (rest.Client's Backend). All of its methods answer NotFound for what is
// another tenant's.
type Backend interface {
	Create(ctx context.Context, req engine.CreateRequest) (engine.Sandbox, error)
	Get(ctx context.Context, id string) (engine.Sandbox, error)
	List(ctx context.Context, q engine.Query) (engine.Page, error)
	Destroy(ctx context.Context, id string) error
	SetTimeout(ctx context.Context, id string, after time.Duration, then engine.Then) (engine.Sandbox, error)
	SetMetadata(ctx context.Context, id string, m map[string]string) (engine.Sandbox, error)
	Stats(ctx context.Context, id string) (sandbox.Stats, error)
	Pause(ctx context.Context, id string, keep sandbox.Fidelity) (engine.Sandbox, error)
	Resume(ctx context.Context, id string, give sandbox.Fidelity) (engine.Sandbox, error)
	Fork(ctx context.Context, id string, req engine.ForkRequest) ([]engine.Sandbox, error)
	Rollback(ctx context.Context, id string, req engine.RollbackRequest) (engine.Sandbox, error)
	Mark(ctx context.Context, id, name string) (engine.Mark, error)
	DeleteMark(ctx context.Context, id, name string) error
	// Guest gives a client of the guest service, which is released by calling the
	// function.
	Guest(ctx context.Context, id string) (*guest.Client, func(), error)

	Snapshot(ctx context.Context, id string, req engine.SnapshotRequest) (engine.Snapshot, error)
	Snapshots(ctx context.Context, q engine.SnapshotQuery) (engine.SnapshotPage, error)
	DeleteSnapshot(ctx context.Context, id string) error

	Promote(ctx context.Context, id string, req engine.PromoteRequest) (engine.TemplateInfo, error)
	ListTemplates(ctx context.Context, q engine.TemplateQuery) (engine.TemplatePage, error)
	ChangeTemplate(ctx context.Context, template string, change engine.TemplateChange) (engine.TemplateInfo, error)
	RemoveTemplate(ctx context.Context, template string) error

	SetNetwork(ctx context.Context, id string, n sandbox.Network) (engine.Sandbox, error)
	NetworkDecisions(ctx context.Context, id string) (list []sandbox.NetworkDecision, missed int64, err error)

	Systems(ctx context.Context) ([]System, error)
	// Doctor refuses others than operators.
	Doctor(ctx context.Context) (engine.Diagnosis, error)
}

// System is an isolation system and whether this host can run it.
type System struct {
	System   string
	Boundary sandbox.Boundary
	// Driver says that this build has one; without it, Verbs and Networks are nil.
	Driver   bool
	Verbs    *sandbox.Verbs
	Networks *sandbox.Networks
	sandbox.Report
}

// Engine is the methods of *engine.Engine that tools use, on behalf of any caller.
type Engine interface {
	Create(ctx context.Context, who engine.Caller, req engine.CreateRequest) (engine.Sandbox, error)
	Get(ctx context.Context, who engine.Caller, id string) (engine.Sandbox, error)
	List(ctx context.Context, who engine.Caller, q engine.Query) (engine.Page, error)
	Destroy(ctx context.Context, who engine.Caller, id string) error
	SetTimeout(ctx context.Context, who engine.Caller, id string, after time.Duration, then engine.Then) (engine.Sandbox, error)
	SetMetadata(ctx context.Context, who engine.Caller, id string, m map[string]string) (engine.Sandbox, error)
	Stats(ctx context.Context, who engine.Caller, id string) (sandbox.Stats, error)
	Pause(ctx context.Context, who engine.Caller, id string, keep sandbox.Fidelity) (engine.Sandbox, error)
	Resume(ctx context.Context, who engine.Caller, id string, give sandbox.Fidelity) (engine.Sandbox, error)
	Fork(ctx context.Context, who engine.Caller, id string, req engine.ForkRequest) ([]engine.Sandbox, error)
	Rollback(ctx context.Context, who engine.Caller, id string, req engine.RollbackRequest) (engine.Sandbox, error)
	Mark(ctx context.Context, who engine.Caller, id, name string) (engine.Mark, error)
	DeleteMark(ctx context.Context, who engine.Caller, id, name string) error
	Guest(ctx context.Context, who engine.Caller, id string) (*guest.Client, func(), error)
	Snapshot(ctx context.Context, who engine.Caller, id string, req engine.SnapshotRequest) (engine.Snapshot, error)
	Snapshots(ctx context.Context, who engine.Caller, q engine.SnapshotQuery) (engine.SnapshotPage, error)
	DeleteSnapshot(ctx context.Context, who engine.Caller, id string) error
	Promote(ctx context.Context, who engine.Caller, id string, req engine.PromoteRequest) (engine.TemplateInfo, error)
	ListTemplates(ctx context.Context, who engine.Caller, q engine.TemplateQuery) (engine.TemplatePage, error)
	ChangeTemplate(ctx context.Context, who engine.Caller, template string, change engine.TemplateChange) (engine.TemplateInfo, error)
	RemoveTemplate(ctx context.Context, who engine.Caller, template string) error
	SetNetwork(ctx context.Context, who engine.Caller, id string, n sandbox.Network) (engine.Sandbox, error)
	NetworkLog(ctx context.Context, who engine.Caller, id string) (list []sandbox.NetworkDecision, missed int64, err error)
	Doctor(ctx context.Context, who engine.Caller) (engine.Diagnosis, error)
}

var _ Engine = (*engine.Engine)(nil)

// ofEngine is an engine for one caller.
type ofEngine struct {
	e       Engine
	who     engine.Caller
	systems func(context.Context) ([]System, error)
}

// OfEngine is the Backend of an engine for one caller. systems lists those of the build;
// nil answers Unsupported.
func OfEngine(e Engine, who engine.Caller, systems func(context.Context) ([]System, error)) Backend {
	return &ofEngine{e, who, systems}
}

func (b *ofEngine) Create(ctx context.Context, req engine.CreateRequest) (engine.Sandbox, error) {
	return b.e.Create(ctx, b.who, req)
}

func (b *ofEngine) Get(ctx context.Context, id string) (engine.Sandbox, error) {
	return b.e.Get(ctx, b.who, id)
}

func (b *ofEngine) List(ctx context.Context, q engine.Query) (engine.Page, error) {
	return b.e.List(ctx, b.who, q)
}

func (b *ofEngine) Destroy(ctx context.Context, id string) error { return b.e.Destroy(ctx, b.who, id) }

func (b *ofEngine) SetTimeout(ctx context.Context, id string, after time.Duration, then engine.Then) (engine.Sandbox, error) {
	return b.e.SetTimeout(ctx, b.who, id, after, then)
}

func (b *ofEngine) SetMetadata(ctx context.Context, id string, m map[string]string) (engine.Sandbox, error) {
	return b.e.SetMetadata(ctx, b.who, id, m)
}

func (b *ofEngine) Stats(ctx context.Context, id string) (sandbox.Stats, error) {
	return b.e.Stats(ctx, b.who, id)
}

func (b *ofEngine) Pause(ctx context.Context, id string, keep sandbox.Fidelity) (engine.Sandbox, error) {
	return b.e.Pause(ctx, b.who, id, keep)
}

func (b *ofEngine) Resume(ctx context.Context, id string, give sandbox.Fidelity) (engine.Sandbox, error) {
	return b.e.Resume(ctx, b.who, id, give)
}

func (b *ofEngine) Fork(ctx context.Context, id string, req engine.ForkRequest) ([]engine.Sandbox, error) {
	return b.e.Fork(ctx, b.who, id, req)
}

func (b *ofEngine) Rollback(ctx context.Context, id string, req engine.RollbackRequest) (engine.Sandbox, error) {
	return b.e.Rollback(ctx, b.who, id, req)
}

func (b *ofEngine) Mark(ctx context.Context, id, name string) (engine.Mark, error) {
	return b.e.Mark(ctx, b.who, id, name)
}

func (b *ofEngine) DeleteMark(ctx context.Context, id, name string) error {
	return b.e.DeleteMark(ctx, b.who, id, name)
}

func (b *ofEngine) Guest(ctx context.Context, id string) (*guest.Client, func(), error) {
	return b.e.Guest(ctx, b.who, id)
}

func (b *ofEngine) Snapshot(ctx context.Context, id string, req engine.SnapshotRequest) (engine.Snapshot, error) {
	return b.e.Snapshot(ctx, b.who, id, req)
}

func (b *ofEngine) Snapshots(ctx context.Context, q engine.SnapshotQuery) (engine.SnapshotPage, error) {
	return b.e.Snapshots(ctx, b.who, q)
}

func (b *ofEngine) DeleteSnapshot(ctx context.Context, id string) error {
	return b.e.DeleteSnapshot(ctx, b.who, id)
}

func (b *ofEngine) Promote(ctx context.Context, id string, req engine.PromoteRequest) (engine.TemplateInfo, error) {
	return b.e.Promote(ctx, b.who, id, req)
}

func (b *ofEngine) ListTemplates(ctx context.Context, q engine.TemplateQuery) (engine.TemplatePage, error) {
	return b.e.ListTemplates(ctx, b.who, q)
}

func (b *ofEngine) ChangeTemplate(ctx context.Context, template string, change engine.TemplateChange) (engine.TemplateInfo, error) {
	return b.e.ChangeTemplate(ctx, b.who, template, change)
}

func (b *ofEngine) RemoveTemplate(ctx context.Context, template string) error {
	return b.e.RemoveTemplate(ctx, b.who, template)
}

func (b *ofEngine) SetNetwork(ctx context.Context, id string, n sandbox.Network) (engine.Sandbox, error) {
	return b.e.SetNetwork(ctx, b.who, id, n)
}

func (b *ofEngine) NetworkDecisions(ctx context.Context, id string) ([]sandbox.NetworkDecision, int64, error) {
	return b.e.NetworkLog(ctx, b.who, id)
}

func (b *ofEngine) Systems(ctx context.Context) ([]System, error) {
	if b.systems == nil {
		return nil, &sandbox.Error{Class: sandbox.Unsupported, Reason: "this engine does not list its systems"}
	}
	return b.systems(ctx)
}

func (b *ofEngine) Doctor(ctx context.Context) (engine.Diagnosis, error) {
	return b.e.Doctor(ctx, b.who)
}
