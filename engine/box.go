package engine

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"aether/engine/access"
	"aether/guest"
	"aether/sandbox"
)

// record is a sandbox as the engine remembers it.
type record struct {
	Sandbox
	// Number is its place in the order of creation.
	Number uint64 `json:"number"`
	// Timeout is how long it runs from its creation, its resumption or the last
	// SetTimeout on.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// Instances counts those that have served it, so that each has an id of its own.
	Instances int `json:"instances"`
	// Asked: it was made for its tenant, by the tenant's own rights and logins, and not
	// by an operator.
	Asked bool `json:"asked,omitempty"`
	// Restored: it is a fork of what was made of a checkpoint.
	Restored bool `json:"restored,omitempty"`
	// Kept is the directory below its home that holds the checkpoint of a paused one.
	Kept string `json:"kept,omitempty"`
	// Interrupted: it ran when the engine was stopped, and the next one resumes it.
	Interrupted bool `json:"interrupted,omitempty"`
	// Changes are the events of its last change. They are written with the record, so
	// that none is lost if the program is killed before it writes them to the journal.
	Changes []Event `json:"changes,omitempty"`
}

// box is a sandbox of the engine: its record, and the instance that serves it now.
type box struct {
	fleet      *fleet
	id, tenant string
	number     uint64
	// turn is held by whoever changes the record.
	turn chan struct{}
	// grant is what it takes of its tenant's quota.
	grant *access.Grant

	mu      sync.Mutex
	record  record
	durable bool             // the record on disk outlives a loss of power
	driver  sandbox.Driver   // of the instance
	inside  sandbox.Instance // nil unless it runs
	leaving bool             // it is being paused or ended: who wants to use it waits for the turn
	client  *guest.Client    // made at the first use of the instance
	timer   *time.Timer
	reached map[string]bool // limits of the instance that were told of
	marks   []*held         // oldest first
	marked  int             // how many there ever were
}

func (f *fleet) newBox(r record) *box {
	return &box{fleet: f, id: r.ID, tenant: r.Tenant, number: r.Number, record: r, turn: make(chan struct{}, 1)}
}

// take waits for the turn. Release gives it back.
func (b *box) take(ctx context.Context) (release func(), err error) {
	select {
	case b.turn <- struct{}{}:
		return func() { <-b.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// takeFree takes the turn if nobody has it.
func (b *box) takeFree() (release func(), ok bool) {
	select {
	case b.turn <- struct{}{}:
		return func() { <-b.turn }, true
	default:
		return nil, false
	}
}

// view is what callers are told. They must not change its maps.
func (b *box) view() Sandbox {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.record.Sandbox
	if s.Instance = b.record.Instances; b.inside == nil || b.leaving {
		s.Instance++
	}
	return s
}

func (b *box) copy() record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.record
}

// instance is what serves the box now, or nil.
func (b *box) instance() sandbox.Instance {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inside
}

// keptDir is where the checkpoint of a paused one is.
func (b *box) keptDir() string {
	return filepath.Join(b.fleet.records.Home(b.id), b.copy().Kept)
}

// change writes the record anew and tells what happened. Whoever calls it has the turn,
// or is the only one who knows the box. What is paused is on disk when change returns,
// and so is what takes the place of that.
func (b *box) change(to func(*record), happened ...Event) error {
	next := b.copy()
	to(&next)
	if len(happened) > 0 {
		next.Changes = b.stamp(happened)
	}
	put, durable := b.fleet.records.Note, next.State == Paused
	if durable || b.durable {
		put = b.fleet.records.Save
	}
	if err := put(b.id, next); err != nil {
		return err
	}
	b.set(next, durable)
	if len(happened) > 0 {
		b.fleet.tell(next.Changes)
	}
	return nil
}

func (b *box) set(next record, durable bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.record, b.durable = next, durable
}

// stamp says when what happened to whom. No two events of a sandbox have one time.
func (b *box) stamp(happened []Event) []Event {
	now, list := time.Now().Round(0), make([]Event, len(happened))
	for i, event := range happened {
		event.Time, event.Tenant, event.Sandbox = now.Add(time.Duration(i)), b.tenant, b.id
		list[i] = event
	}
	return list
}

// serve has an instance serve the box, which is watched until it ends.
func (b *box) serve(driver sandbox.Driver, instance sandbox.Instance) {
	b.mu.Lock()
	if b.client != nil {
		b.client.Close() // of the instance before
	}
	b.driver, b.inside, b.client, b.leaving, b.reached = driver, instance, nil, false, nil
	b.mu.Unlock()
	b.schedule()
	b.fleet.engine.watching.Go(func() { b.watch(instance) })
}

// unserved lets go of the instance, which ends or has ended, and gives it.
func (b *box) unserved() sandbox.Instance {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.inside
	b.inside, b.leaving = nil, false
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.client != nil {
		b.client.Close()
		b.client = nil
	}
	return was
}

// leave has those wait who want to use the box, until it is paused, ended or stays.
func (b *box) leave(leaving bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaving = leaving
}

// schedule sets the timer to when the time of the box is over.
func (b *box) schedule() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.inside == nil || b.record.Expires.IsZero() {
		return
	}
	b.timer = time.AfterFunc(time.Until(b.record.Expires), func() { b.fleet.expire(b) })
}

// templateName is that of the template from which the box descends, without its version.
func (b *box) templateName() string {
	name, _, _ := strings.Cut(b.view().Template, "@")
	return name
}
