package rest_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/engine"
	"aether/guest"
	"aether/image"
	"aether/rest"
	"aether/sandbox"
)

var cells *cell.Driver

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "aether-rest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	images := func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }
	cells = cell.New(cell.Options{Images: images, RunDir: filepath.Join(dir, "run")})
	code := m.Run()
	if err := cells.Close(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// cellEngine is as little of an engine as a door needs: real cells that are somebody's,
// and what happened to them. Pausing freezes.
type cellEngine struct {
	*engine.Engine // which has no sandboxes, and refuses the rest

	mu     sync.Mutex
	minted int
	boxes  []*box
	byKey  map[string]string
	events []engine.Event
	grown  chan struct{} // closed by the next event

	console []byte // of all sandboxes; nil is none
}

type box struct {
	engine.Sandbox
	instance sandbox.Instance
}

var _ rest.Engine = (*cellEngine)(nil)

func newCellEngine(t testing.TB) *cellEngine {
	e := &cellEngine{Engine: engine.New(engine.Options{}), byKey: map[string]string{}, grown: make(chan struct{})}
	t.Cleanup(func() {
		for _, b := range e.boxes {
			if err := b.instance.Destroy(context.Background()); err != nil {
				t.Errorf("destroy %s: %v", b.ID, err)
			}
		}
	})
	return e
}

func (e *cellEngine) find(who engine.Caller, id string) (*box, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range e.boxes {
		if b.ID == id && (who.Operator || b.Tenant == who.Tenant) {
			return b, nil
		}
	}
	return nil, &sandbox.Error{Class: sandbox.NotFound, Reason: "there is no sandbox " + id}
}

// add makes a record of a cell that lives.
func (e *cellEngine) add(who engine.Caller, s engine.Sandbox, instance sandbox.Instance, kind engine.EventKind) engine.Sandbox {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.minted++
	s.ID, s.Tenant, s.State, s.Driver, s.Created = fmt.Sprintf("s%05d", e.minted), who.Tenant, engine.Running, "cell", time.Now()
	e.boxes = append(e.boxes, &box{s, instance})
	e.happened(kind, s)
	return s
}

// happened notes an event. e.mu is held.
func (e *cellEngine) happened(kind engine.EventKind, s engine.Sandbox) {
	e.events = append(e.events, engine.Event{Number: uint64(len(e.events) + 1), Time: time.Now(), Kind: kind, Tenant: s.Tenant, Sandbox: s.ID})
	close(e.grown)
	e.grown = make(chan struct{})
}

func (e *cellEngine) Create(ctx context.Context, who engine.Caller, req engine.CreateRequest) (engine.Sandbox, error) {
	if req.Driver != "" && req.Driver != "cell" {
		return engine.Sandbox{}, sandbox.Invalidf("driver", "there is only cell")
	}
	e.mu.Lock()
	known := e.byKey[who.Tenant+"/"+req.Key]
	e.mu.Unlock()
	if req.Key != "" && known != "" {
		return e.Get(ctx, who, known)
	}
	instance, err := cells.Create(ctx, req.Spec)
	if err != nil {
		return engine.Sandbox{}, err
	}
	made := e.add(who, engine.Sandbox{Spec: req.Spec, Metadata: req.Metadata, Why: "it is the only one"}, instance, engine.EventCreated)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.byKey[who.Tenant+"/"+req.Key] = made.ID
	return made, nil
}

func (e *cellEngine) Get(_ context.Context, who engine.Caller, id string) (engine.Sandbox, error) {
	b, err := e.find(who, id)
	if err != nil {
		return engine.Sandbox{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return b.Sandbox, nil
}

func (e *cellEngine) List(_ context.Context, who engine.Caller, q engine.Query) (engine.Page, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var page engine.Page
	for _, b := range slices.Backward(e.boxes) {
		if q.After != "" && b.ID >= q.After || !who.Operator && b.Tenant != who.Tenant || !chosen(b.Sandbox, q) {
			continue
		}
		if q.Limit > 0 && len(page.Sandboxes) == q.Limit {
			page.Next = page.Sandboxes[q.Limit-1].ID
			return page, nil
		}
		page.Sandboxes = append(page.Sandboxes, b.Sandbox)
	}
	return page, nil
}

func chosen(s engine.Sandbox, q engine.Query) bool {
	for key, value := range q.Metadata {
		if s.Metadata[key] != value {
			return false
		}
	}
	return (len(q.States) == 0 || slices.Contains(q.States, s.State)) && (q.Tenant == "" || q.Tenant == s.Tenant) && (q.Driver == "" || q.Driver == s.Driver)
}

// change changes the record of a sandbox.
func (e *cellEngine) change(who engine.Caller, id string, with func(*box)) (engine.Sandbox, error) {
	b, err := e.find(who, id)
	if err != nil {
		return engine.Sandbox{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	with(b)
	return b.Sandbox, nil
}

func (e *cellEngine) Destroy(ctx context.Context, who engine.Caller, id string) error {
	b, err := e.find(who, id)
	if err != nil {
		return err
	}
	if err := b.instance.Destroy(ctx); err != nil {
		return err
	}
	_, err = e.change(who, id, func(b *box) {
		if b.State != engine.Ended {
			b.State, b.EndedAt, b.Exit = engine.Ended, time.Now(), &sandbox.Exit{Cause: sandbox.Destroyed}
			e.happened(engine.EventEnded, b.Sandbox)
		}
	})
	return err
}

func (e *cellEngine) SetTimeout(_ context.Context, who engine.Caller, id string, after time.Duration, then engine.Then) (engine.Sandbox, error) {
	if after < 0 {
		return engine.Sandbox{}, sandbox.Invalidf("timeout", "it is negative")
	}
	return e.change(who, id, func(b *box) {
		b.Expires, b.Then = time.Now().Add(after), then
	})
}

func (e *cellEngine) SetMetadata(_ context.Context, who engine.Caller, id string, m map[string]string) (engine.Sandbox, error) {
	return e.change(who, id, func(b *box) {
		b.Metadata = maps.Clone(m)
	})
}

func (e *cellEngine) Guest(_ context.Context, who engine.Caller, id string) (*guest.Client, func(), error) {
	b, err := e.find(who, id)
	if err != nil {
		return nil, nil, err
	}
	c := guest.ClientFor(b.instance, guest.ClientOptions{})
	return c, c.Close, nil
}

func (e *cellEngine) Dial(ctx context.Context, who engine.Caller, id string) (net.Conn, error) {
	b, err := e.find(who, id)
	if err != nil {
		return nil, err
	}
	return b.instance.Dial(ctx)
}

func (e *cellEngine) Console(_ context.Context, who engine.Caller, id string) ([]byte, bool, error) {
	if _, err := e.find(who, id); err != nil {
		return nil, false, err
	}
	if e.console == nil {
		return nil, false, &sandbox.Error{Class: sandbox.Unsupported, Reason: "cells have no console"}
	}
	return e.console, len(e.console) >= sandbox.MaxConsole, nil
}

func (e *cellEngine) Stats(ctx context.Context, who engine.Caller, id string) (sandbox.Stats, error) {
	b, err := e.find(who, id)
	if err != nil {
		return sandbox.Stats{}, err
	}
	return b.instance.Stats(ctx)
}

func (e *cellEngine) Pause(ctx context.Context, who engine.Caller, id string, _ sandbox.Fidelity) (engine.Sandbox, error) {
	return e.freeze(who, id, engine.Paused, engine.EventPaused, func(p sandbox.Pauser) error { return p.Pause(ctx) })
}

func (e *cellEngine) Resume(ctx context.Context, who engine.Caller, id string, _ sandbox.Fidelity) (engine.Sandbox, error) {
	return e.freeze(who, id, engine.Running, engine.EventResumed, func(p sandbox.Pauser) error { return p.Resume(ctx) })
}

func (e *cellEngine) freeze(who engine.Caller, id string, to engine.State, kind engine.EventKind, with func(sandbox.Pauser) error) (engine.Sandbox, error) {
	b, err := e.find(who, id)
	if err != nil {
		return engine.Sandbox{}, err
	}
	if err := with(b.instance.(sandbox.Pauser)); err != nil {
		return engine.Sandbox{}, err
	}
	return e.change(who, id, func(b *box) {
		b.State = to
		e.happened(kind, b.Sandbox)
	})
}

func (e *cellEngine) Fork(ctx context.Context, who engine.Caller, id string, req engine.ForkRequest) ([]engine.Sandbox, error) {
	b, err := e.find(who, id)
	if err != nil {
		return nil, err
	}
	forker, ok := b.instance.(sandbox.Forker)
	if !ok {
		return nil, &sandbox.Error{Class: sandbox.Unsupported, Reason: "it cannot be forked"}
	}
	children, err := forker.Fork(ctx, make([]sandbox.Spec, max(req.Count, 1)))
	if err != nil {
		return nil, err
	}
	var made []engine.Sandbox
	for _, child := range children {
		made = append(made, e.add(who, engine.Sandbox{Parent: id, Metadata: req.Metadata}, child, engine.EventForked))
	}
	return made, nil
}

func (e *cellEngine) Events(ctx context.Context, who engine.Caller, after uint64) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		for at := after; ; {
			e.mu.Lock()
			if at > uint64(len(e.events)) {
				e.mu.Unlock()
				yield(engine.Event{}, sandbox.Invalidf("after", "there was no event %d", at))
				return
			}
			fresh, grown := e.events[at:], e.grown
			e.mu.Unlock()
			for _, event := range fresh {
				at = event.Number
				if (who.Operator || who.Tenant == event.Tenant) && !yield(event, nil) {
					return
				}
			}
			select {
			case <-grown:
			case <-ctx.Done():
				return
			}
		}
	}
}
