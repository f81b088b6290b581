package confine

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// TestCellsHaveIdsOfTheirOwn boots cells by several hosts at once, as several programs
// would, and wants no two living ones to have the same ids.
func TestCellsHaveIdsOfTheirOwn(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]string{}
	var group sync.WaitGroup
	for n := range 3 {
		h := openHost(t)
		if h.Identity.Single {
			t.Skip("an ordinary user has one id")
		}
		base, err := h.Prepare(hostTree(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { base.Close() })
		for i := range 4 {
			cell := bootFrom(t, base, Config{Upper: 16 << 20, Group: noGroup})
			group.Go(func() {
				out, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", cell.Pid()))
				mu.Lock()
				defer mu.Unlock()
				who := fmt.Sprintf("cell %d of host %d", i, n)
				if other := seen[string(out)]; err != nil || other != "" {
					t.Errorf("%s and %s have %q: %v", who, other, out, err)
				}
				seen[string(out)] = who
			})
		}
	}
	group.Wait()
}

// TestIdsAreUsedAgain: the ids of a cell that has ended are the next one's.
func TestIdsAreUsedAgain(t *testing.T) {
	h := openHost(t)
	if h.Identity.Single {
		t.Skip("an ordinary user has one id")
	}
	base, err := h.Prepare(hostTree(t))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	for range 5 {
		cell, err := base.Boot(Config{Upper: 16 << 20, Group: noGroup})
		if err != nil {
			t.Fatal(err)
		}
		endCell(t, cell)
		if _, err := cell.Wait(); err != nil { // once more, which gives nothing back twice
			t.Fatal(err)
		}
	}
	if all, free := h.ranges.Held(); all != 1 || free != 1 {
		t.Errorf("five cells, one after another, took %d ranges, of which %d are free", all, free)
	}
}
