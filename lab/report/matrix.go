package report

import (
	"cmp"
	"slices"

	"aether/lab/run"
	"aether/profile"
)

// matrix shows facts by system.
type matrix struct {
	Axis    string
	Systems []string
	Rows    []matrixRow
}

type matrixRow struct {
	Fact, By string
	Cells    []matrixCell
}

// matrixCell is a fact about a system: yes, no, or unknown with a reason.
type matrixCell struct {
	System string
	Class  string
	Sign   string
	Text   string // what was seen
	Line   int
}

// matrices are those of the axes that have facts.
func matrices(systems []run.System) (list []matrix) {
	for _, axis := range profile.Axes() {
		m := matrix{Axis: axis.String()}
		type key struct{ fact, by string }
		var order []key
		for _, s := range systems {
			a := s.Axis(m.Axis)
			if a == nil || len(a.Facts) == 0 {
				continue
			}
			m.Systems = append(m.Systems, s.System)
			for _, f := range a.Facts {
				if k := (key{f.Fact, f.By}); !slices.Contains(order, k) {
					order = append(order, k)
				}
			}
		}
		slices.SortStableFunc(order, func(a, b key) int { return cmp.Compare(a.by, b.by) })
		for _, k := range order {
			row := matrixRow{Fact: k.fact, By: k.by}
			for _, s := range systems {
				if slices.Contains(m.Systems, s.System) {
					row.Cells = append(row.Cells, cellOf(s, *s.Axis(m.Axis), k.fact, k.by))
				}
			}
			m.Rows = append(m.Rows, row)
		}
		if len(m.Rows) > 0 {
			list = append(list, m)
		}
	}
	return list
}

func cellOf(s run.System, a run.Axis, fact, by string) matrixCell {
	for _, f := range a.Facts {
		if f.Fact == fact && f.By == by {
			if f.Holds {
				return matrixCell{s.System, "yes", "✓", f.Proof, f.Line}
			}
			return matrixCell{s.System, "no", "✗", f.Proof, f.Line}
		}
	}
	for _, m := range a.Missing {
		if m.What == fact || m.What == "" || m.What == by {
			return matrixCell{s.System, "unknown", "?", m.Reason, m.Line}
		}
	}
	return matrixCell{s.System, "unknown", "?", "it was not looked at", 0}
}
