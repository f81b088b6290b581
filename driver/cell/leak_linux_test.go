package cell_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"aether/guest"
	"aether/internal/host/cgroup"
	"aether/internal/soak"
	"aether/sandbox"
)

// enough scales a number of cells down where each costs more.
func enough(full int) int {
	usual := full / 5
	if testing.Short() || ordinary() || raceEnabled {
		usual = full / 20
	}
	return soak.Count(usual, full)
}

func TestThousandAtOnce(t *testing.T) {
	driver, runDir := newDriverAhead(t, ahead)
	warm(t, driver, standing(t, ahead))
	before := takeCensus(t, runDir)
	count := enough(1000)
	began := time.Now()
	alive := make([]sandbox.Instance, count)
	spread(count, func(n int) {
		var err error
		if alive[n], err = driver.Create(t.Context(), sandbox.Spec{}); err != nil {
			t.Errorf("cell %d: %v", n, err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%d cells alive after %v", count, time.Since(began).Round(time.Millisecond))
	if got := len(descendants(t, os.Getpid())); got < count {
		t.Errorf("%d cells are %d processes", count, got)
	}
	for _, n := range []int{0, count / 2, count - 1} {
		if got := sh(t, alive[n], "echo $((6 * 7))"); got != "42" {
			t.Errorf("cell %d of %d says %q", n, count, got)
		}
	}
	spread(count, func(n int) { destroy(t, alive[n]) })
	clear(alive)
	wantNoGrowth(t, before, runDir)
}

func TestTenThousandInTurn(t *testing.T) {
	driver, runDir := newDriverAhead(t, ahead)
	warm(t, driver, standing(t, ahead))
	before := takeCensus(t, runDir)
	count := enough(10_000)
	began := time.Now()
	spread(count, func(n int) {
		if t.Failed() {
			return
		}
		if err := life(t.Context(), driver); err != nil {
			t.Errorf("cell %d: %v", n, err)
		}
	})
	took := time.Since(began)
	t.Logf("%d cells lived in %v: %.0f in a second", count, took.Round(time.Millisecond), float64(count)/took.Seconds())
	wantNoGrowth(t, before, runDir)
}

// standing is how many processes so many cells are, made ahead or at rest: PID 1
// and, for root, who stands by for the next command.
func standing(t *testing.T, cells int) int {
	t.Helper()
	groups, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	// Nobody stands by in a group of version 2 that bounds memory from birth on.
	if ordinary() || groups.Layout == cgroup.V2 && groups.Holds()&cgroup.Memory != 0 {
		return cells
	}
	return 2 * cells
}

// warm brings the driver to the state that it keeps between cells, in which there
// are so many processes. again makes those of them that are kept for a while only, as are
// those who stand by: on a host that stands still the first of them may have gone before
// the last has come.
func warm(t *testing.T, driver sandbox.Driver, processes int, again ...func() error) {
	t.Helper()
	var now []peer
	var last time.Time
	if !eventually(30*time.Second, func() bool {
		if time.Since(last) > kept {
			renew(t, driver, again)
			last = time.Now()
		}
		now = descendants(t, os.Getpid())
		return len(now) == processes && !slices.ContainsFunc(now, beingMade)
	}) {
		t.Fatalf("at rest there are %d processes, not %d: %.2000q", len(now), processes, describe(now))
	}
}

// kept is less than anything is kept for that is made ahead.
const kept = 4 * time.Second

// renew uses up all cells that were made ahead, so that others are made.
func renew(t *testing.T, driver sandbox.Driver, again []func() error) {
	t.Helper()
	spread(64, func(int) {
		if err := life(t.Context(), driver); err != nil {
			t.Error(err)
		}
	})
	for _, fn := range again {
		if err := fn(); err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// beingMade says that a process still has this program's memory, which nobody is
// shown the namespaces of, but root.
func beingMade(p peer) bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.PID))
	return err != nil
}

// life creates a cell, runs a command in it and destroys it.
func life(ctx context.Context, driver sandbox.Driver) error {
	instance, err := driver.Create(ctx, sandbox.Spec{})
	if err != nil {
		return err
	}
	c := guest.NewClient(instance.Dial, guest.ClientOptions{})
	defer c.Close()
	_, err = try(ctx, c, guest.Cmd{Path: "/bin/true"})
	if gone := instance.Destroy(ctx); gone != nil {
		return gone
	}
	return err
}

// workers is how many cells are made, or ended, at the same time.
const workers = 4

// spread calls do for every number below count, from several goroutines.
func spread(count int, do func(n int)) {
	var group sync.WaitGroup
	next := make(chan int)
	for range workers {
		group.Go(func() {
			for n := range next {
				do(n)
			}
		})
	}
	for n := range count {
		next <- n
	}
	close(next)
	group.Wait()
}
