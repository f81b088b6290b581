package scale

import (
	"slices"
	"strings"
	"testing"

	"aether/lab"
)

// good is a report that meets every target exactly.
func good() Report {
	row := func(median, tail float64) lab.Row { return lab.Row{MedianUS: median, P99US: tail, Samples: 9} }
	return Report{
		Circumstances: lab.Circumstances{Driver: "cell"},
		Levels: []Level{
			{Alive: 10, Life: row(1000, 3000), Fork: row(1000, 2000)},
			{Alive: 100, Life: row(1000, 3000), Fork: row(1000, 2000)},
			{Alive: 4000, Life: row(1200, 5000), Fork: row(1300, 2000)},
			{Alive: 10_000, Life: row(1500, 6000), Fork: row(1400, 2000), Each: &Each{HostKiB: 300, ProgramKiB: 5, Descriptors: 1, Goroutines: 1}},
		},
		Ending: &Ending{Sandboxes: 10_000, Workers: 2, EachUS: 3000},
	}
}

func TestJudge(t *testing.T) {
	for _, v := range judge(good()) {
		if !v.Met || v.Open != "" {
			t.Errorf("%+v", v)
		}
	}
	r := good()
	r.Levels[3].Life = lab.Row{MedianUS: 1600, P99US: 6600}
	r.Levels[2].Fork.MedianUS = 1400
	r.Levels[3].Each = &Each{HostKiB: 330, ProgramKiB: 6, Descriptors: 3}
	r.Ending.EachUS = 14_000
	for _, v := range judge(r) {
		if v.Met || v.Open != "" {
			t.Errorf("%+v", v)
		}
	}
	r.Levels[3], r.Ending = Level{Alive: 10_000, Skipped: "after 5613: too many open files"}, &Ending{Sandboxes: 4000, Workers: 2, EachUS: 1000}
	open := 0
	for _, v := range judge(r) {
		if v.Open != "" {
			open++
		}
	}
	if open != 6 {
		t.Errorf("%d targets are open without the highest level: %+v", open, judge(r))
	}
}

func TestText(t *testing.T) {
	r := good()
	r.Levels = append(r.Levels, Level{Alive: 20_000, Skipped: "after 12000: too many open files"})
	text := r.Text()
	for _, want := range []string{"10000", "1.50 (6.0)", "skipped: after 12000", "3.00 ms each", strings.Repeat("█", plotWidth) + " 1.50", "of the host"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestLevels(t *testing.T) {
	for most, want := range map[int][]int{5: {5}, 10: {10}, 150: {10, 100, 150}, 10_000: {10, 100, 1000, 4000, 10_000}} {
		if got := (Options{Alive: most}).levels(); !slices.Equal(got, want) {
			t.Errorf("%d: %v", most, got)
		}
	}
}
