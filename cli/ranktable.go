package cli

import (
	"fmt"

	"aether/profile"
)

// rankLayout is one way to fit a ranking into a width. A bar of width 0 is none.
type rankLayout struct {
	fitnessBar, axisBar int
	weighted, fitness   string
	axes                [5]string
	boundary            bool
}

// rankLayouts are tried widest first; the last has to do whatever the width.
var rankLayouts = []rankLayout{
	{fitnessBar: 10, axisBar: 6, weighted: "weighted", fitness: "fitness", boundary: true,
		axes: [...]string{"start", "density", "isolation", "snapshot", "agent-control"}},
	{fitnessBar: 6, weighted: "weighted", fitness: "fitness",
		axes: [...]string{"start", "density", "isolation", "snapshot", "control"}},
	{weighted: "wgt", fitness: "fit",
		axes: [...]string{"start", "dens", "isol", "snap", "ctrl"}},
}

// table is the ranking in the first layout that fits into width, or in the
// widest where width is 0.
func (r ranking) table(width int) table {
	var t table
	for _, layout := range rankLayouts {
		t = r.layOut(layout)
		if width == 0 || t.width() <= width {
			break
		}
	}
	return t
}

func (r ranking) layOut(l rankLayout) table {
	t := table{titles: r.titles(l)}
	for i, p := range r.profiles {
		t.rows = append(t.rows, r.row(l, i+1, p))
	}
	return t
}

func (r ranking) titles(l rankLayout) []string {
	titles := []string{" #", "system"}
	if r.weights != nil {
		titles = append(titles, l.weighted)
	}
	titles = append(titles, l.fitness)
	titles = append(titles, l.axes[:]...)
	if l.boundary {
		titles = append(titles, "boundary")
	}
	return titles
}

func (r ranking) row(l rankLayout, place int, p profile.Profile) []cell {
	row := []cell{{fmt.Sprintf("%2d", place), dim}, text(p.System.Name())}
	if r.weights != nil {
		weighted := r.weights.Fitness(p)
		row = append(row, scoreCell(fmt.Sprintf("%.2f", weighted), weighted, 0))
	}
	row = append(row, scoreCell(p.Fitness.String(), p.Fitness.Float(), l.fitnessBar))
	for _, a := range profile.Axes() {
		row = append(row, scoreCell(p.Score(a).String(), p.Score(a).Float(), l.axisBar))
	}
	if l.boundary {
		row = append(row, text(p.Boundary.String()))
	}
	return row
}

// scoreCell is a number with a bar of at most width columns.
func scoreCell(number string, value float64, width int) cell {
	if drawn := bar(value, width); drawn != "" {
		number += " " + drawn
	}
	return cell{number, barStyle(value)}
}
