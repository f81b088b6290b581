package cell_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"aether/sandbox"
)

// What each cell that does nothing may hold of this program.
const (
	idleDescriptors = 1 // of PID 1
	idleGoroutines  = 0
	idleBytes       = 4 << 10 // of the heap and of stacks
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
func (h holding) exceeds(before holding, cells int) bool {
	return h.descriptors > before.descriptors+idleDescriptors*cells || h.goroutines > before.goroutines+idleGoroutines*cells ||
		h.bytes > before.bytes+idleBytes*cells
}

// TestIdleCellsHoldLittle makes some cells, for what a driver makes once, and then
// more. What the others add is theirs.
func TestIdleCellsHoldLittle(t *testing.T) {
	driver, _ := newDriver(t)
	const some, more = 50, 300
	makeIdle(t, driver, some)
	before := takeHolding(t)
	makeIdle(t, driver, more)
	var after holding
	if !eventually(15*time.Second, func() bool { after = takeHolding(t); return !after.exceeds(before, more) }) {
		t.Errorf("with %d cells this program holds %+v, and with %d more %+v; each may add %d, %d and %d",
			some, before, more, after, idleDescriptors, idleGoroutines, idleBytes)
	}
	t.Logf("each of %d cells added %.2f descriptors, %.2f goroutines and %d bytes", more,
		float64(after.descriptors-before.descriptors)/more, float64(after.goroutines-before.goroutines)/more, (after.bytes-before.bytes)/more)
}

func makeIdle(t *testing.T, driver sandbox.Driver, count int) {
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
		}
	})
	if t.Failed() {
		t.FailNow()
	}
}
