package engine_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"aether/engine"
	"aether/internal/soak"
	"aether/sandbox"
)

// TestCrowd: many clients hold many sandboxes at once, each is the one that it was made
// as, lists have all of them, and what an idle one takes of the engine is bounded.
func TestCrowd(t *testing.T) {
	e := newHouse(t, sandbox.Checkpoint).open()
	clients, each := soak.Count(8, 100), 10
	create(t, e, alice, engine.CreateRequest{}) // what the first needs, it has
	before := heap()
	ids := make([][]string, clients)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			who := engine.Caller{Tenant: fmt.Sprintf("tenant-%d", c)}
			for n := range each {
				s, err := e.Create(t.Context(), who, engine.CreateRequest{Metadata: map[string]string{"n": fmt.Sprint(n)}})
				if err != nil {
					t.Error(err)
					return
				}
				ids[c] = append(ids[c], s.ID)
			}
		})
	}
	all.Wait()
	count := int64(clients * each)
	grown := heap() - before
	t.Logf("%d idle sandboxes take %d KiB", count, grown>>10)
	if grown > count*60<<10 {
		t.Errorf("%d idle sandboxes take %d KiB", count, grown>>10)
	}
	for c := range clients {
		all.Go(func() {
			who := engine.Caller{Tenant: fmt.Sprintf("tenant-%d", c)}
			page, err := e.List(t.Context(), who, engine.Query{})
			if err != nil || len(page.Sandboxes) != each {
				t.Errorf("tenant %d has %d, %v", c, len(page.Sandboxes), err)
			}
			for n, id := range ids[c] {
				word := fmt.Sprintf("%d-%d", c, n)
				if got, err := tryShell(t.Context(), e, who, id, "echo "+word); err != nil || got != word {
					t.Errorf("%s says %q, %v", word, got, err)
				}
				if err := e.Destroy(t.Context(), who, id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	page, err := e.List(t.Context(), root, engine.Query{States: []engine.State{engine.Running}})
	if err != nil || len(page.Sandboxes) != 1 {
		t.Errorf("%d run, %v", len(page.Sandboxes), err)
	}
}

// heap is what the program holds, with its stacks.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
