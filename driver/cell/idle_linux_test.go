package cell_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/guest"
	"aether/sandbox"
)

// What each cell that does nothing may hold of this program.
const (
	idleDescriptors = 1 // of PID 1
	idleGoroutines  = 0
	warmDescriptors = 3       // of one that is made ahead: of PID 1, and two of who stands by
	idleBytes       = 4 << 10 // if nothing has run in it
)

// holding is what this program holds of its own.
type holding struct{ descriptors, goroutines, bytes int }

func takeHolding(t *testing.T) holding {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second lets go of what pools and finalizers kept
	runtime.ReadMemStats(&m)
	return holding{len(open), runtime.NumGoroutine(), int(m.HeapAlloc + m.StackInuse)}
}

// exceeds says that what was added since before is over the bounds of so many cells.
func (h holding) exceeds(before holding, cells int, most holding) bool {
	return h.descriptors > before.descriptors+idleDescriptors*cells+most.descriptors || h.goroutines > before.goroutines+idleGoroutines*cells ||
		h.bytes > before.bytes+most.bytes*cells
}

// TestIdleCellsHoldLittle makes some cells, for what a driver makes once, and then
// more. What the others add is theirs.
func TestIdleCellsHoldLittle(t *testing.T) {
	for _, test := range []struct {
		name  string
		ahead int
		bytes int // that each may hold, of the heap and of stacks
		use   func(sandbox.Instance)
	}{
		{"alone", 0, idleBytes, func(sandbox.Instance) {}},
		{"of a driver that makes others ahead", 2, idleBytes, func(sandbox.Instance) {}},
		{"which have run a command", 2, 2 * idleBytes, func(i sandbox.Instance) {
			c := guest.ClientFor(i, guest.ClientOptions{})
			defer c.Close()
			if _, err := try(t.Context(), c, shell("true")); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cell.WaitForFirst(t, 100*time.Millisecond)
			driver, _ := newDriverAhead(t, test.ahead)
			idleHolds(t, driver, holding{descriptors: warmDescriptors * test.ahead, bytes: test.bytes}, test.use)
		})
	}
}

// idleHolds holds the cells of a driver to their bounds: the bytes of each, and the
// descriptors of others that come and go.
func idleHolds(t *testing.T, driver sandbox.Driver, most holding, use func(sandbox.Instance)) {
	t.Helper()
	const some, more = 50, 300
	makeIdle(t, driver, some, use)
	before := takeHolding(t)
	makeIdle(t, driver, more, use)
	var after holding
	if !eventually(15*time.Second, func() bool { after = takeHolding(t); return !after.exceeds(before, more, most) }) {
		t.Errorf("with %d cells this program holds %+v, and with %d more %+v; each may add %d, %d and %d",
			some, before, more, after, idleDescriptors, idleGoroutines, most.bytes)
	}
	t.Logf("each of %d cells added %.2f descriptors, %.2f goroutines and %d bytes", more,
		float64(after.descriptors-before.descriptors)/more, float64(after.goroutines-before.goroutines)/more, (after.bytes-before.bytes)/more)
}

func makeIdle(t *testing.T, driver sandbox.Driver, count int, use func(sandbox.Instance)) {
	t.Helper()
	alive := make([]sandbox.Instance, count)
	t.Cleanup(func() {
		spread(count, func(n int) {
			if alive[n] != nil {
				destroy(t, alive[n])
			}
		})
	})
	spread(count, func(n int) {
		var err error
		if alive[n], err = driver.Create(t.Context(), sandbox.Spec{}); err != nil {
			t.Errorf("cell %d: %v", n, err)
			return
		}
		use(alive[n])
	})
	if t.Failed() {
		t.FailNow()
	}
}
