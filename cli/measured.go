package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	labrun "aether/lab/run"
	"aether/profile"
	"aether/sandbox"
)

// measured are the systems of a run that were measured.
type measured struct {
	run     labrun.Run
	systems []labrun.System
}

func measuredOf(r labrun.Run) measured {
	m := measured{run: r}
	for _, s := range r.Results {
		if s.Absent == "" {
			m.systems = append(m.systems, s)
		}
	}
	return m
}

// axes are those on which any system has a score. Others say nothing about which fits
// better.
func (m measured) axes() (list []profile.Axis) {
	for _, axis := range profile.Axes() {
		if slices.ContainsFunc(m.systems, func(s labrun.System) bool { return scoreOn(s, axis) != nil }) {
			list = append(list, axis)
		}
	}
	return list
}

// scoreOn is nil for an axis that has none.
func scoreOn(s labrun.System, axis profile.Axis) *float64 {
	if a := s.Axis(axis.String()); a != nil {
		return a.Score
	}
	return nil
}

// fitness is the weighted mean of the axes, and how many of those a system has a score on.
func (m measured) fitness(s labrun.System, weights profile.Weights) (mean float64, has int) {
	sum, total := 0.0, 0.0
	for _, axis := range m.axes() {
		score := scoreOn(s, axis)
		if score == nil {
			continue
		}
		weight, ok := weights[axis]
		if !ok {
			weight = 1
		}
		has++
		sum += weight * *score
		total += weight
	}
	if total == 0 {
		return 0, has
	}
	return sum / total, has
}

// ranked are the systems by a measure, best first. One without a score that others have
// comes behind those.
func (m measured) ranked(by profile.Measure, weights profile.Weights) []labrun.System {
	key := func(s labrun.System) (float64, int) {
		if by == profile.ByFitness {
			return m.fitness(s, weights)
		}
		for _, axis := range profile.Axes() {
			if score := scoreOn(s, axis); profile.By(axis) == by && score != nil {
				return *score, 1
			}
		}
		return 0, 0
	}
	list := slices.Clone(m.systems)
	slices.SortStableFunc(list, func(a, b labrun.System) int {
		x, hasX := key(a)
		y, hasY := key(b)
		return cmp.Or(cmp.Compare(hasY, hasX), cmp.Compare(y, x))
	})
	return list
}

// rankMeasured prints the ranking by what a run measured.
func (o rankOptions) rankMeasured(cmd *cobra.Command, asJSON bool) error {
	if o.core || len(o.need) > 0 {
		return sandbox.Invalidf("--measured", "it cannot be combined with --core or --need, which are about the profiles")
	}
	r, err := loadRun(o.measured)
	if err != nil {
		return err
	}
	by := profile.ByFitness
	if o.by != "" {
		if by, err = profile.ParseMeasure(o.by); err != nil {
			return err
		}
	}
	var weights profile.Weights
	if len(o.weigh) > 0 {
		if weights, err = profile.ParseWeights(strings.Join(o.weigh, ",")); err != nil {
			return err
		}
	}
	m := measuredOf(r)
	ranked := m.ranked(by, weights)
	if asJSON {
		return printJSON(cmd, m.entries(ranked, weights))
	}
	s := screenOf(cmd.OutOrStdout())
	return printText(cmd, m.table(ranked, weights).render(s)+"\n\n"+paragraph(m.note(), "", s.prose()))
}

// rankedSystem is one entry of the JSON answer. Fitness is the mean of the scores that
// there are.
type rankedSystem struct {
	System   string              `json:"system"`
	Boundary string              `json:"boundary"`
	Fitness  *float64            `json:"fitness,omitempty"`
	Scores   map[string]*float64 `json:"scores"`
	Run      string              `json:"run"`
}

func (m measured) entries(ranked []labrun.System, weights profile.Weights) []rankedSystem {
	list := []rankedSystem{}
	for _, s := range ranked {
		e := rankedSystem{System: s.System, Boundary: s.Boundary, Scores: map[string]*float64{}, Run: m.run.ID}
		if mean, has := m.fitness(s, weights); has > 0 {
			e.Fitness = &mean
		}
		for _, axis := range m.axes() {
			e.Scores[axis.Field()] = scoreOn(s, axis)
		}
		list = append(list, e)
	}
	return list
}

func (m measured) table(ranked []labrun.System, weights profile.Weights) table {
	t := table{titles: []string{" #", "system", "fitness"}}
	for _, axis := range m.axes() {
		t.titles = append(t.titles, shortOf(axis.String()))
	}
	t.titles = append(t.titles, "boundary")
	for i, s := range ranked {
		mean, has := m.fitness(s, weights)
		row := []cell{{fmt.Sprintf("%2d", i+1), dim}, text(s.System), scoreCell(fmt.Sprintf("%.2f", mean), mean, 6, has < len(m.axes()))}
		for _, axis := range m.axes() {
			if score := scoreOn(s, axis); score != nil {
				row = append(row, scoreCell(fmt.Sprintf("%.2f", *score), *score, 4, false))
			} else {
				row = append(row, cell{"-", dim})
			}
		}
		t.rows = append(t.rows, append(row, text(s.Boundary)))
	}
	return t
}

// note says what the numbers are of.
func (m measured) note() string {
	var without []string
	for _, axis := range profile.Axes() {
		if !slices.Contains(m.axes(), axis) {
			without = append(without, axis.String())
		}
	}
	text := "Measured on this host by the run " + m.run.ID + "."
	if len(without) > 0 {
		text += " Nothing was measured of " + strings.Join(without, ", ") + ", which fitness leaves out."
	}
	if slices.ContainsFunc(m.systems, func(s labrun.System) bool { _, has := m.fitness(s, nil); return has < len(m.axes()) }) {
		text += " " + designMark + " is of fewer axes, and stands behind the others."
	}
	if m.run.Busy.Said {
		text += " " + busyText(m.run)
	}
	return text
}

// measuredComparison is the JSON answer of compare --measured.
type measuredComparison struct {
	A            string          `json:"a"`
	B            string          `json:"b"`
	Run          string          `json:"run"`
	FitnessDelta *float64        `json:"fitness_delta,omitempty"`
	AxisDeltas   []measuredDelta `json:"axis_deltas"`
}

// measuredDelta is absent, with the reason, where one of both has no score.
type measuredDelta struct {
	Axis   string        `json:"axis"`
	Delta  *float64      `json:"delta,omitempty"`
	Absent string        `json:"absent,omitempty"`
	Why    sides[string] `json:"why"`
}

// compareMeasured prints a comparison by what a run measured.
func compareMeasured(cmd *cobra.Command, drivers *drivers, name string, args []string, why, asJSON bool) error {
	r, err := loadRun(name)
	if err != nil {
		return err
	}
	var both [2]labrun.System
	for i, arg := range args {
		canonical, err := drivers.canonical(arg)
		if err != nil {
			canonical = arg
		}
		if both[i], err = r.System(canonical); err != nil {
			return err
		}
		if both[i].Absent != "" {
			return &sandbox.Error{Class: sandbox.Unavailable, Field: "system", Reason: fmt.Sprintf("%s was not measured in the run %s: %s", canonical, r.ID, both[i].Absent)}
		}
	}
	c := compareSystems(r, both[0], both[1])
	if asJSON {
		return printJSON(cmd, c)
	}
	s := screenOf(cmd.OutOrStdout())
	return printText(cmd, c.text(s, why))
}

func compareSystems(r labrun.Run, a, b labrun.System) measuredComparison {
	c := measuredComparison{A: a.System, B: b.System, Run: r.ID}
	sum, n := 0.0, 0
	for _, axis := range r.Axes {
		x, y := a.Axis(axis), b.Axis(axis)
		d := measuredDelta{Axis: axis}
		switch {
		case x.Score == nil:
			d.Absent = a.System + ": " + x.Absent
		case y.Score == nil:
			d.Absent = b.System + ": " + y.Absent
		default:
			delta := *x.Score - *y.Score
			d.Delta, d.Why = &delta, sides[string]{x.Why, y.Why}
			sum += delta
			n++
		}
		c.AxisDeltas = append(c.AxisDeltas, d)
	}
	if n > 0 {
		mean := sum / float64(n)
		c.FitnessDelta = &mean
	}
	return c
}

func (c measuredComparison) text(s screen, why bool) string {
	signed := func(v float64) string { return profile.Score(roundHundredths(v)).Signed() }
	var b strings.Builder
	fmt.Fprintf(&b, "%s vs %s: fitness delta ", c.A, c.B)
	if c.FitnessDelta == nil {
		b.WriteString("-")
	} else {
		b.WriteString(s.paint(deltaStyle(signed(*c.FitnessDelta)), signed(*c.FitnessDelta)))
	}
	for _, d := range c.AxisDeltas {
		if d.Delta == nil {
			fmt.Fprintf(&b, "\n  %s: not measured: %s", d.Axis, visible(d.Absent))
			continue
		}
		fmt.Fprintf(&b, "\n  %s: %s", d.Axis, s.paint(deltaStyle(signed(*d.Delta)), signed(*d.Delta)))
		if why {
			fmt.Fprintf(&b, "\n%s\n%s", paragraph(visible(c.A+": "+d.Why.A), "    ", s.prose()), paragraph(visible(c.B+": "+d.Why.B), "    ", s.prose()))
		}
	}
	fmt.Fprintf(&b, "\n\nMeasured on this host by the run %s; fitness is the mean of the axes that both have.", c.Run)
	return b.String()
}

func roundHundredths(v float64) int {
	if v < 0 {
		return -roundHundredths(-v)
	}
	return int(100*v + 0.5)
}
