package lifecycle

import (
	"fmt"
	"strings"

	"aether/lab"
)

// Text draws the report for people.
func (r Report) Text() string {
	return strings.Join([]string{
		r.head(),
		"Cold spawn to the first byte of a static program's output, ms\n" + lab.Times(r.Cold, peers...),
		"Exec of the same program in a living sandbox, to its first byte, ms\n" + lab.Times(r.Exec, peers...),
		"Memory of an idle sandbox, from the host's available memory, KiB\n" + footprintTable(r.Idle),
		fmt.Sprintf("Sandboxes made, used and removed in a second by %d workers\n", r.cores) + rateTable(r.Churn),
		"Targets for cell\n" + lab.Verdicts(r.Targets),
	}, "\n")
}

func (r Report) head() string {
	var b strings.Builder
	for _, s := range r.Systems {
		if s.Skipped != "" {
			fmt.Fprintf(&b, "%s is skipped: %s\n", s.Name, s.Skipped)
		} else if s.Version != "" {
			fmt.Fprintf(&b, "%s is %s\n", s.Name, s.Version)
		}
	}
	return b.String()
}

func footprintTable(rows []Footprint) string {
	table := [][]string{append([]string{"", "each", "live"}, lab.Against(peers)...)}
	for _, f := range rows {
		table = append(table, append([]string{f.Name, fmt.Sprintf("%.0f", f.EachKiB), fmt.Sprint(f.Live)}, f.Of.Columns(peers)...))
	}
	return lab.Align(table)
}

func rateTable(rows []Rate) string {
	table := [][]string{append([]string{"", "median", "worst slice"}, lab.Against(peers)...)}
	for _, r := range rows {
		table = append(table, append([]string{r.Name, fmt.Sprintf("%.0f", r.PerSecond), fmt.Sprintf("%.0f", r.WorstRate)}, r.Of.Columns(peers)...))
	}
	return lab.Align(table)
}
