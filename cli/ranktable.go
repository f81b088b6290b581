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
	{fitnessBar: 6, axisBar: 4, weighted: "weighted", fitness: "fitness", boundary: true,
		axes: [...]string{"start", "density", "isolation", "snapshot", "control"}},
	{fitnessBar: 6, axisBar: 4, weighted: "weighted", fitness: "fitness",
		axes: [...]string{"start", "density", "isolation", "snapshot", "control"}},
	{fitnessBar: 6, weighted: "weighted", fitness: "fitness",
		axes: [...]string{"start", "density", "isolation", "snapshot", "control"}},
	{weighted: "wgt", fitness: "fit",
		axes: [...]string{"start", "dens", "isol", "snap", "ctrl"}},
}

// pageWidth is what a ranking may take where nothing bounds a line: files and
// pages that hold one are read by people, too.
const pageWidth = 100

// table is the ranking in the first layout that fits into width, or into a page
// where width is 0.
func (r ranking) table(width int) table {
	if width == 0 {
		width = pageWidth
	}
	var t table
	for _, layout := range rankLayouts {
		if t = r.layOut(layout); t.width() <= width {
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
	row := []cell{{fmt.Sprintf("%2d", place), dim}, text(r.driven.markName(p.System))}
	if r.weights != nil {
		weighted := r.weights.Fitness(p)
		row = append(row, scoreCell(fmt.Sprintf("%.2f", weighted), weighted, 0, r.weights.ByDesign(p)))
	}
	row = append(row, scoreCell(p.Fitness.String(), p.Fitness.Float(), l.fitnessBar, len(p.ByDesign) > 0))
	for _, a := range profile.Axes() {
		row = append(row, scoreCell(p.Score(a).String(), p.Score(a).Float(), l.axisBar, p.IsByDesign(a)))
	}
	if l.boundary {
		row = append(row, text(p.Boundary.String()))
	}
	return row
}

// scoreCell is a number with a bar of at most width columns. The mark of a score
// by design takes the space before the bar, so that bars stay in line.
func scoreCell(number string, value float64, width int, byDesign bool) cell {
	return cell{scoreText(number, bar(value, width), byDesign), barStyle(value)}
}

func scoreText(number, drawn string, byDesign bool) string {
	if drawn == "" || byDesign {
		return markScore(number, byDesign) + drawn
	}
	return number + " " + drawn
}
