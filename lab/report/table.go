package report

import (
	"cmp"
	"slices"

	"aether/lab/run"
	"aether/profile"
)

// ranked is a row of the table of systems.
type ranked struct {
	Place    int
	System   string
	Boundary string
	Version  string
	Fitness  *float64
	// Curated is the mean of the profile's scores on the axes of the run.
	Curated *float64
	Cells   []cell
}

// cell is a system's score on an axis.
type cell struct {
	Link          string
	Axis          string
	Score         *float64
	Width         float64 // of its bar, out of 100
	Curated       *float64
	At            float64 // where the profile's score is in the bar
	Absent        string
	Disagreement  string
	DisagreesLink string
}

type disagreement struct {
	Link, System, Axis, Text string
	Score, Curated           *float64
}

// rank orders the systems that were measured: by the mean of what was scored, so that a run
// of some axes has an order too.
func rank(all []run.System) (systems []run.System) {
	for _, s := range all {
		if s.Absent == "" {
			systems = append(systems, s)
		}
	}
	slices.SortStableFunc(systems, func(a, b run.System) int {
		return cmp.Compare(mean(b), mean(a))
	})
	return systems
}

func mean(s run.System) float64 {
	if s.Fitness != nil {
		return *s.Fitness
	}
	sum, n := 0.0, 0
	for _, a := range s.Axes {
		if a.Score != nil {
			sum += *a.Score
			n++
		}
	}
	if n == 0 {
		return -1
	}
	// Systems of which less is known stand behind those of which all is.
	return sum/float64(n) - 2
}

func rankedRows(systems []run.System, axes []profile.Axis) (rows []ranked) {
	for i, s := range systems {
		row := ranked{Place: i + 1, System: s.System, Boundary: s.Boundary, Version: s.Version, Fitness: s.Fitness}
		sum, n := 0.0, 0
		for _, axis := range axes {
			c := cell{Axis: axis.String(), Absent: "it was not measured"}
			if a := s.Axis(axis.String()); a != nil {
				c.Link, c.Score, c.Curated, c.Absent, c.Disagreement = anchor("d", s.System, a.Axis), a.Score, a.Curated, a.Absent, a.Disagreement
				c.DisagreesLink = anchor("disagrees", s.System, a.Axis)
			}
			if c.Score != nil {
				c.Width = 100 * *c.Score
			}
			if c.Curated != nil {
				c.At = 100 * *c.Curated
				sum += *c.Curated
				n++
			}
			row.Cells = append(row.Cells, c)
		}
		if n == len(axes) && n > 0 {
			all := sum / float64(n)
			row.Curated = &all
		}
		rows = append(rows, row)
	}
	return rows
}

func disagreements(systems []run.System) (list []disagreement) {
	for _, s := range systems {
		for _, a := range s.Axes {
			if a.Disagreement != "" {
				list = append(list, disagreement{anchor("disagrees", s.System, a.Axis), s.System, a.Axis, a.Disagreement, a.Score, a.Curated})
			}
		}
	}
	return list
}
