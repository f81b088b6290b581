package density

import (
	"testing"
	"time"

	"aether/lab"
	"aether/lab/labtest"
	"aether/lab/run"
)

// TestMeasure keeps real sandboxes alive.
func TestMeasure(t *testing.T) {
	systems := labtest.Systems(t)
	store := labtest.Store(t, systems)
	opts := Options{Levels: []int{2, 5}, Rounds: 1, Grow: 5 * time.Minute, Settle: 100 * time.Millisecond, Idle: 100 * time.Millisecond}
	if err := Measure(t.Context(), systems, opts, store); err != nil {
		t.Fatal(err)
	}
	for _, s := range systems {
		for _, at := range []float64{2, 5} {
			for _, figure := range []string{run.Memory, run.Kernel, run.PSS, run.Processors, run.Fit} {
				checkFigure(t, store, s.Name, figure, at)
			}
		}
	}
	before := len(store.Records())
	if err := Measure(t.Context(), systems, opts, store); err != nil || len(store.Records()) != before {
		t.Errorf("what is there is measured again: %v", err)
	}
}

// checkFigure looks at what noise cannot touch: the processes' own memory.
func checkFigure(t *testing.T, store *run.Store, system, figure string, at float64) {
	t.Helper()
	for _, r := range store.Records() {
		if r.Kind != run.Sampled || r.System != system || r.Figure != figure || r.At != at {
			continue
		}
		if (figure == run.PSS || figure == run.Fit) && r.Value <= 0 {
			t.Errorf("%s: %s of %v: %v", system, figure, at, r.Value)
		}
		return
	}
	t.Errorf("%s has no %s at %v", system, figure, at)
}

func TestFit(t *testing.T) {
	host := lab.Memory{"MemAvailable": 1 << 20}
	for _, c := range []struct{ kib, processors, want float64 }{{1024, 0, 1024}, {-5, 0, 1 << 20}, {1, 1e9, 0}} {
		if got := fit(host, c.kib, c.processors); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
