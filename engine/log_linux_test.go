package engine_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aether/engine"
	"aether/sandbox"
)

// records are what was logged, a line each.
type records struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *records) Write(record []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(record)
}

func (r *records) with(text string) (found []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(r.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// faulty makes real cells that refuse what it is told to.
type faulty struct {
	sandbox.Driver
	noForks, noEnd atomic.Bool
	refused        atomic.Int64
}

var errRefused = &sandbox.Error{Class: sandbox.Exhausted, Op: "test", Reason: "refused"}

func (d *faulty) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	made, err := d.Driver.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &faultyInstance{made, d}, nil
}

type faultyInstance struct {
	sandbox.Instance
	driver *faulty
}

func (i *faultyInstance) ForkFidelity() sandbox.Fidelity {
	return i.Instance.(sandbox.Forker).ForkFidelity()
}

func (i *faultyInstance) Fork(ctx context.Context, specs []sandbox.Spec) ([]sandbox.Instance, error) {
	if i.driver.noForks.Load() {
		i.driver.refused.Add(1)
		return nil, errRefused
	}
	made, err := i.Instance.(sandbox.Forker).Fork(ctx, specs)
	for n := range made {
		made[n] = &faultyInstance{made[n], i.driver}
	}
	return made, err
}

func (i *faultyInstance) Destroy(ctx context.Context) error {
	if i.driver.noEnd.Load() {
		return errRefused
	}
	return i.Instance.Destroy(ctx)
}

func newFaulty(t *testing.T) (*faulty, *engine.Engine, *records) {
	t.Helper()
	need(t, "sleep")
	logged := &records{}
	e := newEngineWith(t, engine.Options{Logger: slog.New(slog.NewTextHandler(logged, nil))})
	driver := &faulty{Driver: cells}
	if _, err := e.Prepare(t.Context(), driver, engine.Recipe{Name: "one", Command: []string{"sleep", "1000"}}, nil); err != nil {
		t.Fatal(err)
	}
	return driver, e, logged
}

// TestPoolThatCannotBeFilledIsLogged has forks refused, and then not.
func TestPoolThatCannotBeFilledIsLogged(t *testing.T) {
	driver, e, logged := newFaulty(t)
	driver.noForks.Store(true)
	pool := newPool(t, e, engine.PoolOptions{Size: 2})
	if !eventually(func() bool { return driver.refused.Load() > 2 }) {
		t.Fatal("it is not tried again")
	}
	got := logged.with("a pool cannot be filled")
	if len(got) != 1 || !strings.Contains(got[0], "template=one") || !strings.Contains(got[0], "tenant=me") || !strings.Contains(got[0], "refused") {
		t.Errorf("logged: %q", got)
	}
	driver.noForks.Store(false)
	wantReady(t, pool, 2)
	driver.noForks.Store(true)
	claim(t, pool)
	if !eventually(func() bool { return len(logged.with("a pool cannot be filled")) == 2 }) {
		t.Error("a failure after a success is not logged")
	}
}

// TestClosingIsNotLogged: a pool that is not to be filled any more is no failure.
func TestClosingIsNotLogged(t *testing.T) {
	_, e, logged := newFaulty(t)
	newPool(t, e, engine.PoolOptions{Size: 50})
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := logged.with(""); len(got) > 0 {
		t.Errorf("logged: %q", got)
	}
}

// TestExpiredThatStaysIsLogged has the end of a child refused when its time is over.
func TestExpiredThatStaysIsLogged(t *testing.T) {
	driver, e, logged := newFaulty(t)
	pool := newPool(t, e, engine.PoolOptions{Size: 1, Spec: sandbox.Spec{Timeouts: sandbox.Timeouts{Lifetime: 50 * time.Millisecond}}})
	driver.noEnd.Store(true)
	child := claim(t, pool)
	stays := func() bool { return len(logged.with("a sandbox whose time is over could not be removed")) == 1 }
	if !eventually(stays) || len(logged.with(child.ID())) != 1 {
		t.Errorf("logged: %q", logged.with(""))
	}
	driver.noEnd.Store(false)
}
