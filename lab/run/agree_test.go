package run

import (
	"math/rand/v2"
	"testing"

	"aether/profile"
)

// again is a run of systems whose cold starts take so long, with what else differs by chance.
func again(t *testing.T, seed uint64, cold map[string]float64) []Record {
	t.Helper()
	h := Header{Schema: Schema, ID: "again", Axes: []string{profile.StartLatency.String()}}
	for _, name := range []string{"bubblewrap", "cell", "crun", "runc"} {
		if cold[name] > 0 {
			h.Systems = append(h.Systems, name)
		}
	}
	s, err := Create(t.TempDir(), h)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	random := rand.New(rand.NewPCG(seed, 1))
	for _, name := range h.Systems {
		list := []Record{{Kind: Found, System: name, Machine: &Machine{Boundary: "process"}}}
		for round := range 40 {
			list = append(list, Record{Kind: Sampled, System: name, Axis: h.Axes[0], Figure: Cold, At: 1, Round: round, Value: cold[name] * (0.95 + 0.1*random.Float64()), Unit: Microseconds})
		}
		for _, r := range list {
			if err := s.Append(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s.Records()
}

func TestAgreement(t *testing.T) {
	base := map[string]float64{"bubblewrap": 10_000, "cell": 2_000, "crun": 20_000, "runc": 21_000}
	for _, test := range []struct {
		name                string
		other               map[string]float64
		contradicted, apart int
	}{
		{"the same by nature", base, 0, 0},
		{"a host that is twice as slow", map[string]float64{"bubblewrap": 20_000, "cell": 4_000, "crun": 40_000, "runc": 42_000}, 0, 0},
		{"crun and runc are tied, whichever is before", map[string]float64{"bubblewrap": 10_000, "cell": 2_000, "crun": 21_000, "runc": 20_000}, 0, 0},
		{"a cell that got slower, still the first", map[string]float64{"bubblewrap": 10_000, "cell": 3_000, "crun": 20_000, "runc": 21_000}, 0, 1},
		{"bubblewrap behind crun", map[string]float64{"bubblewrap": 30_000, "cell": 6_000, "crun": 20_000, "runc": 63_000}, 1, 1},
		{"of fewer systems", map[string]float64{"bubblewrap": 10_000, "cell": 2_000}, 0, 0},
	} {
		c, err := Compare(again(t, 1, base), again(t, 2, test.other))
		if err != nil {
			t.Fatal(err)
		}
		a, apart := c.Agreement, 0
		for _, r := range a.Ratios {
			if r.Apart > a.Within {
				apart++
			}
		}
		if len(a.Contradicted) != test.contradicted || apart != test.apart || a.Agree != (test.contradicted+test.apart == 0) || a.Pairs == 0 {
			t.Errorf("%s: %+v", test.name, a)
		}
	}
	alone := map[string]float64{"cell": 2_000}
	c, err := Compare(again(t, 1, alone), again(t, 2, alone))
	if err != nil || c.Agreement.Agree || c.Agreement.Pairs != 0 {
		t.Errorf("a run with nothing to rank agrees: %+v, %v", c.Agreement, err)
	}
}
