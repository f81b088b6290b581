package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"aether/guest"
	"aether/sandbox"
)

// enterFleet is enter for an engine that holds sandboxes.
func (e *Engine) enterFleet(ctx context.Context) (context.Context, func(), error) {
	if e.fleet == nil {
		return nil, nil, errNoState
	}
	return e.enter(ctx)
}

// turn finds a box and waits until the caller alone may change it.
func (e *Engine) turn(ctx context.Context, who Caller, id string) (context.Context, *box, func(), error) {
	ctx, leave, err := e.enterFleet(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	b, err := e.fleet.index.find(who, id)
	if err != nil {
		leave()
		return nil, nil, nil, err
	}
	done, err := b.take(ctx)
	if err != nil {
		leave()
		return nil, nil, nil, fmt.Errorf("engine: %s: %w", id, context.Cause(ctx))
	}
	return ctx, b, func() { done(); leave() }, nil
}

// Get tells what is known of a sandbox. Errors: NotFound, also for what is another
// tenant's.
func (e *Engine) Get(_ context.Context, who Caller, id string) (Sandbox, error) {
	if e.fleet == nil {
		return Sandbox{}, errNoState
	}
	b, err := e.fleet.index.find(who, id)
	if err != nil {
		return Sandbox{}, err
	}
	return b.view(), nil
}

// List gives a page of the sandboxes that the caller may see, those that ended lately
// included. Errors: Invalid.
func (e *Engine) List(_ context.Context, who Caller, q Query) (Page, error) {
	if e.fleet == nil {
		return Page{}, errNoState
	}
	return e.fleet.index.page(who, q)
}

// CountMatching says how many sandboxes List would give in all of its pages.
func (e *Engine) CountMatching(_ context.Context, who Caller, q Query) (int, error) {
	if e.fleet == nil {
		return 0, errNoState
	}
	return e.fleet.index.count(who, q), nil
}

// Count says how many sandboxes there are, by driver and state; those that ended lately
// are in it for as long as they are remembered.
func (e *Engine) Count() map[string]map[State]int {
	counts := map[string]map[State]int{}
	if e.fleet == nil {
		return counts
	}
	for _, b := range e.fleet.index.each() {
		r := b.copy()
		if counts[r.Driver] == nil {
			counts[r.Driver] = map[State]int{}
		}
		counts[r.Driver][r.State]++
	}
	return counts
}

// SetTimeout has the time of a sandbox be over after a while from now, or never if that
// is zero. That of a paused one begins when it is resumed. An empty Then leaves what
// happens as it is.
func (e *Engine) SetTimeout(ctx context.Context, who Caller, id string, after time.Duration, then Then) (Sandbox, error) {
	if err := (terms{timeout: after, then: then}).validate(Caller{Tenant: "any"}); err != nil {
		return Sandbox{}, err
	}
	return e.alter(ctx, who, id, func(r *record) {
		r.Timeout, r.Expires, r.Then = after, time.Time{}, cmp.Or(then, r.Then, ThenKill)
		if r.State == Running {
			r.Expires = expiry(after)
		}
	})
}

// SetMetadata replaces the caller's own words about a sandbox.
func (e *Engine) SetMetadata(ctx context.Context, who Caller, id string, m map[string]string) (Sandbox, error) {
	if err := (sandbox.Spec{Metadata: m}).Validate(); err != nil {
		return Sandbox{}, err
	}
	m = maps.Clone(m)
	return e.alter(ctx, who, id, func(r *record) { r.Metadata = m })
}

// alter changes the record of a sandbox that has not ended.
func (e *Engine) alter(ctx context.Context, who Caller, id string, to func(*record)) (Sandbox, error) {
	_, b, release, err := e.turn(ctx, who, id)
	if err != nil {
		return Sandbox{}, err
	}
	defer release()
	if r := b.copy(); r.State == Ended {
		return Sandbox{}, r.gone()
	}
	if err := b.change(to); err != nil {
		return Sandbox{}, fmt.Errorf("engine: %w", err)
	}
	b.schedule()
	return b.view(), nil
}

// gone is the error for a sandbox that has ended.
func (r record) gone() error {
	e := &sandbox.Error{Class: sandbox.NotFound, Op: "engine: " + r.ID, Reason: "the sandbox has ended (" + string(r.Exit.Cause) + ")"}
	if r.Exit.Detail != "" {
		e.Reason += ": " + r.Exit.Detail
	}
	return e
}

// paused is the error for a sandbox that would have to run.
func (r record) paused() error {
	return &sandbox.Error{Class: sandbox.Conflict, Op: "engine: " + r.ID, Reason: "the sandbox is paused", Remedy: "resume it"}
}

// use gives the instance of a sandbox. A paused one that may be resumed by use is. Who
// comes while it is being paused or resumed waits.
func (e *Engine) use(ctx context.Context, who Caller, id string) (*box, sandbox.Instance, error) {
	if e.fleet == nil {
		return nil, nil, errNoState
	}
	b, err := e.fleet.index.find(who, id)
	if err != nil {
		return nil, nil, err
	}
	if instance := b.ready(); instance != nil {
		return b, instance, nil
	}
	ctx, b, release, err := e.turn(ctx, who, id)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	if err := e.fleet.wake(ctx, who, b); err != nil {
		return nil, nil, err
	}
	return b, b.instance(), nil
}

// ready is the instance of a box that stays, or nil.
func (b *box) ready() sandbox.Instance {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leaving {
		return nil
	}
	return b.inside
}

// wake resumes a box that somebody wants to use, whose turn the caller has.
func (f *fleet) wake(ctx context.Context, who Caller, b *box) error {
	r := b.copy()
	switch {
	case r.State == Ended:
		return r.gone()
	case r.State == Running:
		return nil
	case !r.AutoResume && !r.Interrupted:
		return r.paused()
	}
	return f.resume(ctx, who, b, "")
}

// Guest gives a client of the sandbox's guest service. It is good until the sandbox ends
// or is paused; release must be called when it is used no more. Errors: NotFound;
// Conflict for a paused sandbox that is not resumed by use.
func (e *Engine) Guest(ctx context.Context, who Caller, id string) (*guest.Client, func(), error) {
	b, instance, err := e.use(ctx, who, id)
	if err != nil {
		return nil, nil, err
	}
	client, mine := b.clientOf(instance)
	return client, sync.OnceFunc(func() {
		if !mine || b.instance() != instance {
			client.Close()
		}
	}), nil
}

// clientOf is the client that all users of an instance share, or one for this user
// alone if the box has another instance by now.
func (b *box) clientOf(instance sandbox.Instance) (client *guest.Client, shared bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inside != instance {
		return guest.ClientFor(instance, guest.ClientOptions{}), false
	}
	if b.client == nil {
		b.client = guest.ClientFor(instance, guest.ClientOptions{})
	}
	return b.client, true
}

// Dial connects to the sandbox's guest service. Errors: as Guest.
func (e *Engine) Dial(ctx context.Context, who Caller, id string) (net.Conn, error) {
	_, instance, err := e.use(ctx, who, id)
	if err != nil {
		return nil, err
	}
	return instance.Dial(ctx)
}

// look finds the instance that serves a sandbox, which is no use of it. Errors: NotFound;
// Conflict for a paused one.
func (e *Engine) look(who Caller, id string) (*box, sandbox.Instance, error) {
	if e.fleet == nil {
		return nil, nil, errNoState
	}
	b, err := e.fleet.index.find(who, id)
	if err != nil {
		return nil, nil, err
	}
	instance := b.instance()
	if instance == nil {
		if r := b.copy(); r.State == Ended {
			return nil, nil, r.gone()
		}
		return nil, nil, b.copy().paused()
	}
	return b, instance, nil
}

// Console gives the end of what a sandbox has written to its console since it was made or
// last resumed, which are hostile bytes; cut says that there was more before. Errors:
// NotFound; Conflict for a paused one; Unsupported for one without a console.
func (e *Engine) Console(ctx context.Context, who Caller, id string) (end []byte, cut bool, err error) {
	b, instance, err := e.look(who, id)
	if err != nil {
		return nil, false, err
	}
	console, ok := instance.(sandbox.Console)
	if !ok {
		return nil, false, &sandbox.Error{Class: sandbox.Unsupported, Op: "engine: console " + id,
			Reason: "sandboxes of " + b.copy().Driver + " have no console", Remedy: "ask for what its commands have written"}
	}
	if end, cut, err = console.Console(ctx); err != nil {
		return nil, false, fmt.Errorf("engine: console %s: %w", id, err)
	}
	return end, cut, nil
}

// Stats says what a sandbox uses now. Errors: NotFound; Conflict for a paused one.
func (e *Engine) Stats(ctx context.Context, who Caller, id string) (sandbox.Stats, error) {
	b, instance, err := e.look(who, id)
	if err != nil {
		return sandbox.Stats{}, err
	}
	stats, err := instance.Stats(ctx)
	if err != nil {
		return stats, fmt.Errorf("engine: %w", err)
	}
	b.reach(stats.Reached())
	return stats, nil
}

// reach tells once of each limit that an instance has run into.
func (b *box) reach(limits []string) {
	b.mu.Lock()
	var happened []Event
	for _, limit := range limits {
		if !b.reached[limit] {
			if b.reached == nil {
				b.reached = map[string]bool{}
			}
			b.reached[limit] = true
			happened = append(happened, Event{Kind: EventLimitReached, Detail: map[string]string{"limit": limit}})
		}
	}
	b.mu.Unlock()
	if len(happened) > 0 {
		b.fleet.tell(b.stamp(happened))
	}
}
