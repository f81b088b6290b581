package start

import (
	"testing"
	"time"

	"aether/lab"
	"aether/lab/labtest"
	"aether/lab/run"
)

// TestMeasure starts real sandboxes by every way that their drivers have.
func TestMeasure(t *testing.T) {
	systems := labtest.Systems(t)
	store := labtest.Store(t, systems)
	opts := Options{Rounds: 2, Crowds: 1, Crowd: 2, Budget: 5 * time.Minute, Prepare: 5 * time.Minute, Patience: 5 * time.Minute}
	if err := Measure(t.Context(), systems, opts, store); err != nil {
		t.Fatal(err)
	}
	type place struct {
		system, figure string
		at             float64
	}
	got := map[place]int{}
	for _, r := range store.Records() {
		switch r.Kind {
		case run.Sampled:
			got[place{r.System, r.Figure, r.At}]++
			checkParts(t, r)
		case run.Absent:
			got[place{r.System, r.Figure, 0}]++
		}
	}
	wanted := map[place]int{{"cell", run.Cold, 1}: 2, {"cell", run.Cold, 2}: 2}
	if labtest.Forks(systems[0]) {
		for _, name := range []string{run.Restore, run.Fork, run.Claim} {
			wanted[place{"cell", name, 1}], wanted[place{"cell", name, 2}] = 2, 2
		}
	}
	if len(systems) > 1 {
		wanted[place{"bubblewrap", run.Cold, 1}] = 2
		wanted[place{"bubblewrap", run.Fork, 0}], wanted[place{"bubblewrap", run.Restore, 0}] = 1, 1
	}
	for p, n := range wanted {
		if got[p] != n {
			t.Errorf("%+v: %d samples, want %d: %v", p, got[p], n, store.Records())
		}
	}
	before := len(store.Records())
	if err := Measure(t.Context(), systems, opts, store); err != nil || len(store.Records()) != before {
		t.Errorf("what is there is measured again: %d records, then %d, %v", before, len(store.Records()), err)
	}
}

func checkParts(t *testing.T, r run.Record) {
	t.Helper()
	sum := 0.0
	for _, p := range r.Parts {
		if !p.After {
			sum += p.Value
		}
	}
	if r.Value <= 0 || sum > r.Value+1 || sum < r.Value-1 {
		t.Errorf("%s by %s: parts of %v make %v", r.System, r.Figure, r.Value, sum)
	}
}

func TestSplitCreate(t *testing.T) {
	laps := func() lab.Sample {
		return lab.Sample{First: 3 * time.Second, Laps: []lab.Lap{{Name: lapCreate, Took: 2800 * time.Millisecond}, {Name: lapExec, Took: 150 * time.Millisecond},
			{Name: lapFirstByte, Took: 50 * time.Millisecond}, {Name: lapEnd, Took: time.Second, After: true}}}
	}
	const stat = "1 (in it) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 170 1000 200\n"
	s := laps()
	splitCreate(&s, "2.50 0.10\n"+stat)
	want := []time.Duration{500 * time.Millisecond, 1700 * time.Millisecond, 600 * time.Millisecond, 150 * time.Millisecond}
	for i, took := range want {
		if s.Laps[i].Took != took {
			t.Errorf("lap %d is %+v, want %v", i, s.Laps[i], took)
		}
	}
	host, err := hostUptime()
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{"", "x y\n" + stat, "9.00 1\n" + stat, "1.00 1\n" + stat, "2.50 1\n1 (a) S 0\n", host.String()} {
		s := laps()
		if splitCreate(&s, said); len(s.Laps) != 4 {
			t.Errorf("%q is taken for a boot: %v", said, s.Laps)
		}
	}
}
