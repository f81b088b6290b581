package cell_test

import (
	"syscall"
	"testing"
	"time"

	"aether/sandbox"
)

// TestLimitsOfCellsMadeAhead: the cell, and who stands by for its commands, were
// made before the limits were known.
func TestLimitsOfCellsMadeAhead(t *testing.T) {
	needRoot(t, "cgroups to limit by")
	driver, _ := newDriverAhead(t, 2)
	for range 2 { // from the second on, others are made ahead
		create(t, driver, sandbox.Spec{})
	}
	time.Sleep(20 * time.Millisecond)
	for _, limits := range []sandbox.Limits{
		{MemoryBytes: 32 << 20},
		{MemoryBytes: 32 << 20, CPUs: 1},
		{MemoryBytes: 32 << 20, Processes: 20},
	} {
		instance := create(t, driver, sandbox.Spec{Limits: limits})
		for range 3 {
			sh(t, instance, "true")
			time.Sleep(20 * time.Millisecond) // for somebody to stand by
		}
		sleeper := start(t, instance, "exec sleep 1000")
		if limits.Processes == 0 && !eventually(10*time.Second, func() bool { return population(t, instance) == 2 }) { // with PID 1
			t.Errorf("%+v: there are %d processes", limits, population(t, instance))
		}
		if got, err := try(t.Context(), client(t, instance), hungry); err != nil || got.Signal != syscall.SIGKILL || !got.OutOfMemory {
			t.Errorf("%+v: %+v, %v", limits, got.Status, err)
		}
		if err := sleeper.Signal(t.Context(), 0); sandbox.ClassOf(err) == sandbox.NotFound {
			t.Errorf("%+v: the kernel chose another command", limits)
		}
	}
}

func population(t *testing.T, instance sandbox.Instance) int64 {
	t.Helper()
	stats, err := instance.Stats(t.Context())
	if err != nil || stats.Processes == nil {
		t.Fatalf("%+v, %v", stats, err)
	}
	return *stats.Processes
}
