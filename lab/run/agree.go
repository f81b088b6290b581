package run

import (
	"math"
	"slices"

	"aether/lab"
	"aether/profile"
)

const (
	// ratioBase is whose cold start those of all systems are compared with.
	ratioBase = "bubblewrap"
	// ratioWithin is how far the same ratio of two runs may be apart.
	ratioWithin = 0.15
	// Fitness is the ranking by all axes.
	Fitness = "fitness"
)

// Agreement says whether two runs of one host tell the same.
type Agreement struct {
	// Pairs is how many pairs of systems both runs rank, on every axis that both have and by
	// fitness, and Contradicted those that they rank the other way round. Systems whose
	// intervals overlap are tied, which contradicts nothing.
	Pairs        int             `json:"pairs"`
	Contradicted []Contradiction `json:"contradicted"`
	// Ratios are of the ways to a first byte, one at a time, to the cold start of Base.
	// They may be apart by Within.
	Base   string      `json:"base"`
	Within float64     `json:"within"`
	Ratios []RatioPair `json:"ratios"`
	// Agree says that nothing is contradicted and all ratios are within.
	Agree bool `json:"agree"`
}

// Contradiction is of a pair of which the one run has the first before the second beyond
// noise, and the other the second before the first.
type Contradiction struct {
	On     string `json:"on"` // an axis, or fitness
	First  string `json:"first"`
	Second string `json:"second"`
}

// RatioPair is a ratio in both runs.
type RatioPair struct {
	System string  `json:"system"`
	Figure string  `json:"figure"`
	A      float64 `json:"a"`
	B      float64 `json:"b"`
	// Apart is how far the greater is above the other: 0.1 is a tenth.
	Apart float64 `json:"apart"`
}

// interval is where a score lies.
type interval struct{ low, high float64 }

// order is 1 if one is above another, -1 if it is below, and 0 if they overlap.
func (i interval) order(other interval) int {
	switch {
	case i.low > other.high:
		return 1
	case i.high < other.low:
		return -1
	}
	return 0
}

// between is the score of an axis if every figure were its 10th percentile, and its 90th.
func (a Axis) between() interval {
	found := interval{*a.Score, *a.Score}
	for _, better := range []bool{true, false} {
		b := a
		b.Figures = slices.Clone(a.Figures)
		for i, f := range b.Figures {
			// Of these, more is better.
			if (f.Figure == Shared || f.Figure == Resistance) != better {
				b.Figures[i].Median = f.P10
			} else {
				b.Figures[i].Median = f.P90
			}
		}
		if value, _, absent := judges[a.Axis](b); absent == "" {
			found.low, found.high = min(found.low, value), max(found.high, value)
		}
	}
	return found
}

// intervals are those of a run's systems: by axis, and by fitness where all axes have one.
func intervals(r Run) map[string]map[string]interval {
	list := map[string]map[string]interval{}
	add := func(on, system string, i interval) {
		if list[on] == nil {
			list[on] = map[string]interval{}
		}
		list[on][system] = i
	}
	for _, s := range r.Results {
		var sum interval
		for _, a := range s.Axes {
			if a.Score != nil {
				i := a.between()
				add(a.Axis, s.System, i)
				sum.low, sum.high = sum.low+i.low, sum.high+i.high
			}
		}
		if s.Fitness != nil {
			n := float64(len(s.Axes))
			add(Fitness, s.System, interval{sum.low / n, sum.high / n})
		}
	}
	return list
}

// agreementOf compares what two runs say of the same systems.
func agreementOf(a, b Run) Agreement {
	c := Agreement{Base: ratioBase, Within: ratioWithin, Contradicted: []Contradiction{}, Ratios: ratios(a, b)}
	of, with := intervals(a), intervals(b)
	for _, on := range append(slices.Clone(a.Header.Axes), Fitness) {
		var both []string
		for _, s := range a.Results {
			_, here := of[on][s.System]
			if _, there := with[on][s.System]; here && there {
				both = append(both, s.System)
			}
		}
		for i, first := range both {
			for _, second := range both[i+1:] {
				c.Pairs++
				switch before, after := of[on][first].order(of[on][second]), with[on][first].order(with[on][second]); {
				case before*after >= 0:
				case before > 0:
					c.Contradicted = append(c.Contradicted, Contradiction{on, first, second})
				default:
					c.Contradicted = append(c.Contradicted, Contradiction{on, second, first})
				}
			}
		}
	}
	c.Agree = c.Pairs > 0 && len(c.Contradicted) == 0 && !slices.ContainsFunc(c.Ratios, func(r RatioPair) bool { return r.Apart > ratioWithin })
	return c
}

// ratios are those of every way that both runs have.
func ratios(a, b Run) []RatioPair {
	list := []RatioPair{}
	of, with := starts(a), starts(b)
	base := place{ratioBase, Cold}
	for _, s := range a.Results {
		for _, figure := range []string{Cold, Restore, Fork, Claim} {
			at := place{s.System, figure}
			r := RatioPair{System: s.System, Figure: figure, A: lab.Of(of[at], of[base]), B: lab.Of(with[at], with[base])}
			if at != base && r.A > 0 && r.B > 0 {
				r.Apart = math.Exp(math.Abs(math.Log(r.A/r.B))) - 1
				list = append(list, r)
			}
		}
	}
	return list
}

type place struct{ system, figure string }

// starts are the medians of the ways to a first byte, one at a time.
func starts(r Run) map[place]float64 {
	list := map[place]float64{}
	for _, s := range r.Results {
		if a := s.Axis(profile.StartLatency.String()); a != nil {
			for _, f := range a.Figures {
				if f.At == 1 {
					list[place{s.System, f.Figure}] = f.Median
				}
			}
		}
	}
	return list
}
