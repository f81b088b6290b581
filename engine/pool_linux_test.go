package engine_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"aether/engine"
	"aether/sandbox"
)

func newPool(t testing.TB, e *engine.Engine, opts engine.PoolOptions) *engine.Pool {
	t.Helper()
	template := e.Templates()[0]
	pool, err := e.Pool("me", template.Recipe().Name, opts)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

func wantReady(t testing.TB, pool *engine.Pool, n int) {
	t.Helper()
	if !eventually(func() bool { return pool.Stats().Ready == n }) {
		t.Fatalf("%d children never were ready: %+v", n, pool.Stats())
	}
}

func claim(t testing.TB, pool *engine.Pool) *engine.Child {
	t.Helper()
	child, err := pool.Claim(t.Context(), "me")
	if err != nil {
		t.Fatal(err)
	}
	return child
}

func TestPool(t *testing.T) {
	need(t, "python3")
	e := newEngine(t)
	prepare(t, e, countingRecipe())
	pool := newPool(t, e, engine.PoolOptions{Size: 3})
	wantReady(t, pool, 3)
	seen := map[string]bool{}
	for range 8 {
		child := claim(t, pool)
		if seen[child.ID()] {
			t.Fatal("a child was handed out twice")
		}
		seen[child.ID()] = true
		if got := ask(t, child, "2"); got != "42" {
			t.Errorf("it answers %s", got)
		}
	}
	wantReady(t, pool, 3)
	if stats := pool.Stats(); stats.Claimed != 8 || stats.Err != nil {
		t.Errorf("%+v", stats)
	}
	if err := pool.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := pool.Claim(t.Context(), "me"); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Errorf("a closed pool gives %v", err)
	}
}

func TestPoolBelongsToATenant(t *testing.T) {
	need(t, "sleep")
	e := newEngine(t)
	prepare(t, e, engine.Recipe{Name: "one", Command: []string{"sleep", "1000"}})
	pool := newPool(t, e, engine.PoolOptions{Size: 1})
	if _, err := pool.Claim(t.Context(), "you"); sandbox.ClassOf(err) != sandbox.Denied {
		t.Errorf("another tenant gets %v", err)
	}
	other, err := e.Pool("you", "one", engine.PoolOptions{Size: 1})
	if err != nil || other == pool {
		t.Errorf("another tenant has the same pool, %v", err)
	}
	if again, err := e.Pool("me", "one", engine.PoolOptions{Size: 1}); err != nil || again != pool {
		t.Errorf("the same tenant has another pool, %v", err)
	}
}

func TestPoolOptions(t *testing.T) {
	need(t, "sleep")
	e := newEngine(t)
	prepare(t, e, engine.Recipe{Name: "one", Command: []string{"sleep", "1000"}})
	for field, opts := range map[string]engine.PoolOptions{
		"size": {}, "max_bytes": {Size: 1, MaxBytes: -1}, "id": {Size: 1, Spec: sandbox.Spec{ID: "a"}},
		"limits.memory": {Size: 1, Spec: sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 1}}},
	} {
		_, err := e.Pool("me", "one", opts)
		wantInvalid(t, err, field)
	}
	_, err := e.Pool("", "one", engine.PoolOptions{Size: 1})
	wantInvalid(t, err, "tenant")
	if _, err := e.Pool("me", "two", engine.PoolOptions{Size: 1}); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("a pool of nothing: %v", err)
	}
}

// A child that has ended while it was parked is never handed out.
func TestPoolSkipsTheDead(t *testing.T) {
	need(t, "sleep")
	e := newEngine(t)
	template := prepare(t, e, engine.Recipe{Name: "one", Command: []string{"sleep", "1000"}})
	pool := newPool(t, e, engine.PoolOptions{Size: 2})
	wantReady(t, pool, 2)
	child := claim(t, pool)
	if err := child.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	if next := claim(t, pool); next.ID() == child.ID() || next.Parent() != template.ID() {
		t.Errorf("%s is handed out", next.ID())
	}
}

func TestPoolIsBoundedInMemory(t *testing.T) {
	need(t, "python3")
	e := newEngine(t)
	template := prepare(t, e, countingRecipe())
	probe := fork(t, template, 1)[0]
	stats, err := probe.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.MemoryBytes == nil || *stats.MemoryBytes == 0 {
		t.Skip("this host does not count the memory of a cell")
	}
	most := 4 * *stats.MemoryBytes
	pool := newPool(t, e, engine.PoolOptions{Size: 500, MaxBytes: most})
	var s engine.PoolStats
	if !eventually(func() bool { s = pool.Stats(); return strings.Contains(s.Reason, "bound on memory") }) {
		t.Fatalf("the bound was never reached: %+v", s)
	}
	if s.Ready < 1 || s.Ready >= 500 || s.Bytes == nil || *s.Bytes > most {
		t.Errorf("%+v, of at most %d bytes", s, most)
	}
}

func TestPoolOfAnEndedTemplate(t *testing.T) {
	need(t, "sleep")
	e := newEngine(t)
	template := prepare(t, e, engine.Recipe{Name: "one", Command: []string{"sleep", "1000"}})
	pool := newPool(t, e, engine.PoolOptions{Size: 2})
	wantReady(t, pool, 2)
	if err := e.Remove(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	<-template.Done()
	if _, err := pool.Claim(t.Context(), "me"); err == nil {
		t.Error("it still gives children")
	}
}

func TestLifetimeBeginsWithTheClaim(t *testing.T) {
	need(t, "sleep")
	e := newEngine(t)
	prepare(t, e, engine.Recipe{Name: "one", Command: []string{"sleep", "1000"}})
	life := 300 * time.Millisecond
	pool := newPool(t, e, engine.PoolOptions{Size: 1, Spec: sandbox.Spec{Timeouts: sandbox.Timeouts{Lifetime: life}}})
	wantReady(t, pool, 1)
	time.Sleep(life)
	start := time.Now()
	child := claim(t, pool)
	<-child.Done()
	if took := time.Since(start); took < life {
		t.Errorf("it lived for %v", took)
	}
}

func TestPoolHammer(t *testing.T) {
	need(t, "sleep")
	e := newEngine(t)
	prepare(t, e, engine.Recipe{Name: "one", Command: []string{"sleep", "1000"}})
	pool := newPool(t, e, engine.PoolOptions{Size: 4})
	var seen sync.Map
	var workers sync.WaitGroup
	for range 6 {
		workers.Go(func() {
			for range 5 {
				child, err := pool.Claim(t.Context(), "me")
				if err != nil {
					t.Error(err)
					return
				}
				if _, twice := seen.LoadOrStore(child.ID(), true); twice {
					t.Error("a child was handed out twice")
				}
				if err := child.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
}
