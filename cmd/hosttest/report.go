package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// writeJSON prints every result as it is.
func writeJSON(w io.Writer, results []result) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(results)
}

// writeTable prints a line for each result, then what failed ones said and others
// measured.
func writeTable(w io.Writer, results []result) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "host\tway\tstep\tverdict\tseconds\tnote")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%.1f\t%s\n", r.Host, r.Way, r.Step, r.Verdict, r.Seconds, r.note())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if r.Output != "" {
			fmt.Fprintf(w, "\n%s, %s, %s: %s\n%s\n", r.Host, r.Way, r.Step, r.Reason, r.Output)
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", sum(results))
	return err
}

// note is what there is to say about a result in a line.
func (r result) note() string {
	var parts []string
	for _, part := range []string{r.Tests.String(), r.Reason} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if r.Tests != nil && len(r.Tests.Failures) > 0 {
		parts = append(parts, strings.Join(r.Tests.Failures, " "))
	}
	return strings.Join(strings.Fields(strings.Join(parts, "; ")), " ")
}

func sum(results []result) string {
	count := map[string]int{}
	for _, r := range results {
		count[r.Verdict]++
	}
	return fmt.Sprintf("%d passed, %d refused as expected, %d skipped, %d failed", count[pass], count[refused], count[skip], count[fail])
}

// writeMarkdown prints the rows of docs/hosts.md: one for each way of each host,
// with a column for each step.
func writeMarkdown(w io.Writer, results []result) error {
	type row struct{ host, way string }
	cells := map[row]map[string]string{}
	var order []row
	for _, r := range results {
		at := row{r.Host, r.Way}
		if cells[at] == nil {
			cells[at], order = map[string]string{}, append(order, at)
		}
		cells[at][r.Step] = r.cell()
	}
	for _, at := range order {
		line := []string{at.host, at.way}
		for _, step := range steps {
			if step == stepRemedy && at.way != wayDocker {
				line = append(line, "")
				continue
			}
			line = append(line, cmp.Or(cells[at][step], "not run"))
		}
		if _, err := fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | ")); err != nil {
			return err
		}
	}
	return nil
}

// cell is a result in a column. A bar would begin the next one.
func (r result) cell() string {
	text := r.Verdict
	if r.Tests != nil {
		text += ": " + r.Tests.String()
	}
	return strings.ReplaceAll(text, "|", `\|`)
}

// inOrder sorts results as the tables of ways and steps stand; those of one host
// are together already.
func inOrder(results []result) {
	slices.SortStableFunc(results, func(a, b result) int {
		if d := slices.Index(ways, a.Way) - slices.Index(ways, b.Way); d != 0 {
			return d
		}
		return slices.Index(steps, a.Step) - slices.Index(steps, b.Step)
	})
}
