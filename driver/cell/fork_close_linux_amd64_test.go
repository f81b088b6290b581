package cell_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"aether/sandbox"
)

// TestCloseWhileForking: a driver may be closed, and a child's time be over, while cells are
// forked.
func TestCloseWhileForking(t *testing.T) {
	seed := rand.Uint64()
	moments := rand.New(rand.NewPCG(seed, 0))
	for n := range few(40) {
		driver, _ := newDriver(t)
		source := create(t, driver, sandbox.Spec{})
		python := converse(t, source, 0, "python3", "-c", adder)
		python.hear(t, "primed")
		spec := sandbox.Spec{}
		if n%2 == 0 {
			spec.Timeouts.Lifetime = time.Duration(1 + moments.Int64N(int64(30*time.Millisecond)))
		}
		forking := make(chan struct{})
		go func() {
			defer close(forking)
			for {
				if _, err := source.(sandbox.Forker).Fork(t.Context(), []sandbox.Spec{spec, spec}); err != nil && !passes(err) {
					return // it has ended
				}
			}
		}()
		time.Sleep(time.Duration(moments.Int64N(int64(300 * time.Millisecond))))
		if err := driver.Close(t.Context()); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		<-forking
	}
}
