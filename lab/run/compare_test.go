package run

import (
	"math/rand/v2"
	"testing"

	"aether/profile"
)

// startsOf are the records of a run whose cold starts take so long, with noise.
func startsOf(t *testing.T, seed uint64, medians map[string]float64) []Record {
	t.Helper()
	s := newStore(t, "cell", "docker")
	random := rand.New(rand.NewPCG(seed, 1))
	for _, name := range []string{"cell", "docker"} {
		add(t, s, Record{Kind: Found, System: name, Machine: &Machine{}})
		for range 40 {
			add(t, s, sample(name, profile.StartLatency, Cold, 1, medians[name]*(0.8+0.4*random.Float64())))
		}
		add(t, s, sample(name, profile.StartLatency, Fork, 1, 3)) // one is not enough
	}
	return s.Records()
}

func TestCompare(t *testing.T) {
	a := startsOf(t, 1, map[string]float64{"cell": 1000, "docker": 300_000})
	b := startsOf(t, 2, map[string]float64{"cell": 1500, "docker": 300_000})
	c, err := Compare(a, b)
	if err != nil || len(c.Changes) != 2 || c.Uncompared != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	if first := c.Changes[0]; first.System != "cell" || !first.Changed || first.B < first.A {
		t.Errorf("%+v", first)
	}
	if second := c.Changes[1]; second.Changed {
		t.Errorf("noise is called a change: %+v", second)
	}
	if c.Alarms.Shuffled > 2*Alpha || c.Alarms.Tries != 4*shuffles || c.Alarms.TriesInTime != 4 {
		t.Errorf("%+v", c.Alarms)
	}
	again, err := Compare(a, a)
	if err != nil || again.Changes[0].Changed || again.Changes[0].P < 0.99 || len(again.Scores) != 0 {
		t.Errorf("a run differs from itself: %+v, %v", again, err)
	}
}

func TestDecide(t *testing.T) {
	list := []Change{{System: "c", A: 1, B: 2, P: 0.004}, {System: "a", A: 1, B: 2, P: 0.0001}, {System: "b", A: 1, B: 1.01, P: 0.0002}, {System: "d", A: 1, B: 9, P: 0.02}}
	decide(list)
	for i, want := range []bool{true, false, true, false} {
		if list[i].Changed != want {
			t.Errorf("%+v", list[i])
		}
	}
	if apart(1, 1.04) || !apart(1, 1.06) || !apart(0, 1) || apart(0, 0) || !apart(-1, 2) {
		t.Error("medians are told apart wrongly")
	}
}
