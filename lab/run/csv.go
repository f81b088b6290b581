package run

import (
	"encoding/csv"
	"io"
	"strconv"
)

// WriteCSV writes the figures of a run as a table, one line for each.
func (r Run) WriteCSV(to io.Writer) error {
	w := csv.NewWriter(to)
	rows := [][]string{{"system", "axis", "score", "figure", "at", "unit", "samples", "min", "p10", "median", "p90", "p99", "max", "spread"}}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for _, s := range r.Results {
		for _, a := range s.Axes {
			scored := ""
			if a.Score != nil {
				scored = number(*a.Score)
			}
			for _, f := range a.Figures {
				rows = append(rows, []string{s.System, a.Axis, scored, f.Figure, number(f.At), string(f.Unit), strconv.Itoa(f.Samples),
					number(f.Min), number(f.P10), number(f.Median), number(f.P90), number(f.P99), number(f.Max), number(f.Spread)})
			}
		}
	}
	return w.WriteAll(rows)
}
