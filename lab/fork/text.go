package fork

import (
	"fmt"
	"strings"

	"aether/lab"
)

// Text draws the report for people.
func (r Report) Text() string {
	sections := []string{
		fmt.Sprintf("Forks by %s: %d interleaved rounds, %s\n", r.Driver, r.Rounds, r.Course()),
		"To the first reply of an interpreter, ms\n" + lab.Times(r.First),
		"The source stands still, ms\n" + lab.Times(r.Pause),
		"Claim of a child that is ready, to its first byte, ms\n" + lab.Times(r.Claim),
		"To the first reply, with a busy neighbour on every processor, ms\n" + lab.Times(r.Busy),
		"Children of a python3 with 64 MiB of data, made by one call\n" + crowdTable(r.Crowds),
		"Targets for forks\n" + lab.Verdicts(r.Targets),
	}
	return strings.Join(sections, "\n")
}

func crowdTable(rows []Crowd) string {
	table := [][]string{{"children", "seconds", "KiB each", "MiB in all", "next fork, ms"}}
	for _, c := range rows {
		if c.Skipped != "" {
			table = append(table, []string{fmt.Sprint(c.Children), "skipped: " + c.Skipped})
			continue
		}
		table = append(table, []string{fmt.Sprint(c.Children), fmt.Sprintf("%.3f", c.Seconds), lab.Figure("%.0f", c.EachKiB), lab.Figure("%.1f", c.TotalMiB), lab.Figure("%.3f", c.NextUS/1000)})
	}
	return lab.Align(table)
}
