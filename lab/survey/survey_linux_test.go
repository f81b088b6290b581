package survey

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"aether/driver/oci"
	"aether/internal/unprivtest"
	"aether/lab"
	"aether/lab/control"
	"aether/lab/density"
	"aether/lab/labtest"
	"aether/lab/run"
	"aether/lab/snapshot"
	"aether/lab/start"
	"aether/profile"
	"aether/sandbox"
)

// patience bounds what is measured, on a host of any speed.
const patience = 5 * time.Minute

// little is so much that a test can wait for it.
func little(t *testing.T) {
	t.Helper()
	before := quick
	t.Cleanup(func() { quick = before })
	quick = amount{
		start:    start.Options{Rounds: 2, Crowds: 1, Crowd: 2, Budget: patience, Prepare: patience, Patience: patience},
		density:  density.Options{Levels: []int{3}, Rounds: 1, Grow: patience, Settle: 50 * time.Millisecond, Idle: 50 * time.Millisecond},
		snapshot: snapshot.Options{Sizes: []int{run.ScoredMiB}, Rounds: 1, Budget: patience},
		control:  control.Options{Budget: patience},
		trial:    patience, look: 20 * time.Millisecond,
	}
}

func newRun(t *testing.T, systems ...string) *run.Store {
	t.Helper()
	h := run.Header{Schema: run.Schema, ID: "test", Quick: true, Systems: systems}
	for _, a := range profile.Axes() {
		h.Axes = append(h.Axes, a.String())
	}
	store, err := run.Create(t.TempDir(), h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// TestMeasure measures cells on every axis, stops in the middle and goes on.
func TestMeasure(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("the program that is copied needs python3: ", err)
	}
	little(t)
	store := newRun(t, "cell", "unheard-of")
	systems := []lab.System{labtest.Cells(t)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	labtest.Probe(t)
	stopping := lab.NewProgress(stopAt{"start-latency", cancel})
	r, err := Measure(ctx, systems, store, Options{Progress: stopping})
	if !errors.Is(err, context.Canceled) || r.Complete {
		t.Fatalf("it does not stop: %v", err)
	}
	before := len(store.Records())
	if r, err = Measure(t.Context(), systems, store, Options{}); err != nil || !r.Complete {
		t.Fatal(err)
	}
	cells, err := r.System("cell")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range cells.Axes {
		if a.Score == nil {
			t.Errorf("%s: %s, %+v", a.Axis, a.Absent, a.Missing)
			continue
		}
		t.Logf("%s: %.2f: %s", a.Axis, *a.Score, a.Why)
	}
	if cells.Fitness == nil || len(cells.Axes) != 5 || len(cells.Axis("isolation").Facts) < 80 {
		t.Errorf("%+v", cells)
	}
	if other, err := r.System("unheard-of"); err != nil || other.Absent == "" || r.Busy.Looks < 2 {
		t.Errorf("%+v, %v, %+v", other, err, r.Busy)
	}
	controls := 0
	for _, rec := range store.Records() {
		if rec.Kind == run.Done && rec.Step == "agent-control of cell" {
			controls++
		}
	}
	if controls != 1 || before == 0 {
		t.Errorf("what was measured before it was stopped is measured again: %d", controls)
	}
}

// stopAt ends a context when a word is said.
type stopAt struct {
	word string
	stop context.CancelFunc
}

func (s stopAt) Write(p []byte) (int, error) {
	for i := range p {
		if len(p)-i >= len(s.word) && string(p[i:i+len(s.word)]) == s.word {
			s.stop()
			break
		}
	}
	return len(p), nil
}

// TestLimit: what a quick run has no time for is absent, with that reason.
func TestLimit(t *testing.T) {
	little(t)
	quick.until = map[profile.Axis]time.Duration{}
	for _, a := range profile.Axes() {
		quick.until[a] = 0
	}
	store := newRun(t, "cell")
	r, err := Measure(t.Context(), []lab.System{labtest.Cells(t)}, store, Options{})
	if err != nil || !r.Complete {
		t.Fatal(err)
	}
	for _, a := range r.Results[0].Axes {
		if a.Score != nil || a.Absent == "" {
			t.Errorf("%+v", a)
		}
	}
}

// TestOrdinaryUser: whoever is not root measures what runs for such a user, and the rest is
// absent with its reason.
func TestOrdinaryUser(t *testing.T) {
	if os.Geteuid() == 0 {
		unprivtest.AsOrdinaryUser(t, []string{"-test.run=^TestOrdinaryUser$"})
		return
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("the program that is copied needs python3: ", err)
	}
	little(t)
	cells := labtest.Cells(t)
	if report := cells.Driver.Probe(t.Context()); !report.Usable {
		t.Skip(report.Reason)
	}
	newRunc := func() sandbox.Driver { return oci.New(oci.Options{Runtime: oci.Runc, RunDir: t.TempDir()}) }
	h := run.Header{Schema: run.Schema, ID: "test", Quick: true, Systems: []string{"cell", "runc"}, Axes: []string{"start-latency", "density", "snapshotting", "agent-control"}}
	store, err := run.Create(t.TempDir(), h)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	r, err := Measure(t.Context(), []lab.System{cells, {Name: "runc", Driver: newRunc(), New: newRunc}}, store, Options{})
	if err != nil || !r.Complete {
		t.Fatal(err)
	}
	for _, a := range r.Results[0].Axes {
		if a.Score == nil {
			t.Errorf("%s: %s, %+v", a.Axis, a.Absent, a.Missing)
		}
	}
	if r.Results[1].Absent == "" {
		t.Errorf("runc was measured: %+v", r.Results[1])
	}
	t.Log(r.Results[1].Absent)
}
