package snapshot

import (
	"os/exec"
	"testing"
	"time"

	"aether/lab/labtest"
	"aether/lab/run"
	"aether/profile"
)

// TestMeasure copies real sandboxes with a program that shows what is left of it.
func TestMeasure(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("the program in the sandbox needs python3: ", err)
	}
	systems := labtest.Systems(t)
	store := labtest.Store(t, systems)
	opts := Options{Sizes: []int{run.ScoredMiB, 4}, Copies: []int{1, 3}, Rounds: 1, Budget: 5 * time.Minute, Dir: t.TempDir()}
	if err := Measure(t.Context(), systems, opts, store); err != nil {
		t.Fatal(err)
	}
	for _, s := range systems {
		a := labtest.Axis(t, store, s.Name, profile.Snapshotting)
		if a.Score == nil {
			t.Fatalf("%s: %+v", s.Name, a)
		}
		for _, f := range a.Facts {
			t.Logf("%s, %s by %s: %v: %s", s.Name, f.Fact, f.By, f.Holds, f.Proof)
			if f.Fact == run.Connections {
				continue // what a system may refuse
			}
			live := labtest.Forks(s) || f.Fact == run.Files && f.By == run.Restore
			if f.Holds != live {
				t.Errorf("%s: %s by %s is %v", s.Name, f.Fact, f.By, f.Holds)
			}
		}
		t.Logf("%s: %.2f: %s; %+v", s.Name, *a.Score, a.Why, a.Missing)
		checkFigures(t, a, labtest.Forks(s))
	}
	before := len(store.Records())
	if err := Measure(t.Context(), systems, opts, store); err != nil || len(store.Records()) != before {
		t.Errorf("what is there is measured again: %v", err)
	}
}

func checkFigures(t *testing.T, a run.Axis, forks bool) {
	t.Helper()
	type place struct {
		name string
		at   float64
	}
	wanted := []place{{run.Snapshot, run.ScoredMiB}, {run.Restore, run.ScoredMiB}, {run.Restore, 4}, {run.StillSnapshot, 4}, {run.Copies, 3}}
	if forks {
		wanted = append(wanted, place{run.Fork, run.ScoredMiB}, place{run.StillFork, 4}, place{run.Shared, run.ScoredMiB}, place{run.CopyMemory, 3})
	}
	for _, p := range wanted {
		if f := a.Figure(p.name, p.at); f == nil || f.Median <= 0 {
			t.Errorf("no %s at %v: %+v, %+v", p.name, p.at, f, a.Missing)
		}
	}
	if f := a.Figure(run.Shared, run.ScoredMiB); forks && f != nil && f.Median < 0.5 {
		t.Errorf("forks share %v of their memory", f.Median)
	}
}

func TestParseState(t *testing.T) {
	if s, err := parseState(`{"said":"a","count":3,"word":"w","memory":true,"file":"w","pair":"w","tcp":"no"}`, "a"); err != nil || s.Count != 3 || s.Memory != true {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "pong", `{"said":"b"}`, `{"said":"a","count":"x"}`, `[]`} {
		if _, err := parseState(bad, "a"); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
