package profile

import (
	"math"
	"reflect"
	"slices"
	"testing"
)

func systemsOf(profiles []Profile) []System {
	list := make([]System, len(profiles))
	for i, p := range profiles {
		list[i] = p.System
	}
	return list
}

func TestRankCore(t *testing.T) {
	want := []System{AetherVM, Firecracker, CloudHypervisor, GVisor, Docker, Kata, QEMU}
	if got := systemsOf(Rank(Profiles(Core()...))); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRankIsSortedAndStable(t *testing.T) {
	backwards := Profiles()
	slices.Reverse(backwards)
	for _, name := range MeasureNames() {
		m, err := ParseMeasure(name)
		if err != nil {
			t.Fatal(err)
		}
		ranked := RankBy(m, Profiles())
		for i := range len(ranked) - 1 {
			a, b := ranked[i], ranked[i+1]
			if m.of(a) < m.of(b) || m.of(a) == m.of(b) && a.System > b.System {
				t.Errorf("by %s: %s is before %s", m, a.System, b.System)
			}
		}
		if again := RankBy(m, backwards); !reflect.DeepEqual(ranked, again) {
			t.Errorf("by %s: the ranking depends on the order given", m)
		}
	}
	if backwards[0].System != UTM {
		t.Error("Rank changed its input")
	}
}

func TestEqualWeightsRankAsNone(t *testing.T) {
	want := Rank(Profiles())
	all := func(v float64) Weights {
		w := Weights{}
		for _, a := range Axes() {
			w[a] = v
		}
		return w
	}
	for _, w := range []Weights{nil, {}, all(1), all(3), all(0.1), all(1e-300), all(math.MaxFloat64)} {
		if got := RankWeighted(w, Profiles()); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: got %v", w, systemsOf(got))
		}
		for _, p := range want {
			if got := w.Fitness(p); got != p.Fitness.Float() {
				t.Errorf("%v: the weighted fitness of %s is %v, want %v", w, p.System, got, p.Fitness.Float())
			}
		}
	}
}

func TestWeightedFitness(t *testing.T) {
	for _, c := range []struct {
		weights string
		of      System
		want    float64
	}{
		{"isolation=3,start-latency=2", Firecracker, 0.81875},
		{"isolation=3,start-latency=2", Docker, 0.6125},
		{"start=0,density=0,snapshot=0,agent-control=0", QEMU, 0.9},
		{"isolation=0", Docker, 0.725},
		{"isolation=1e308,density=1e308", GVisor, 0.725},
		{"density=2", Kata, 0.616667},
	} {
		w, err := ParseWeights(c.weights)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Fitness(c.of.Profile()); got != c.want {
			t.Errorf("%s: %s has %v, want %v", c.weights, c.of, got, c.want)
		}
	}
}

func TestWeightedByDesign(t *testing.T) {
	cell, docker := Cell.Profile(), Docker.Profile()
	for _, c := range []struct {
		weights Weights
		of      Profile
		want    bool
	}{
		{nil, cell, true}, {nil, docker, false}, {Weights{Density: 0}, cell, true}, {Weights{AgentControl: 0}, cell, false},
	} {
		if got := c.weights.ByDesign(c.of); got != c.want {
			t.Errorf("%s weighted by %v: by design is %v", c.of.System, c.weights, got)
		}
	}
}
