package lab

import (
	"fmt"
	"strings"
)

// Times is the table of rows, in milliseconds, with their ratios to peers.
func Times(rows []Row, peers ...string) string {
	table := [][]string{append([]string{"", "p10", "median", "p99"}, Against(peers)...)}
	for _, r := range rows {
		if r.Skipped != "" {
			table = append(table, []string{r.Name, "skipped: " + r.Skipped})
			continue
		}
		table = append(table, append([]string{r.Name, millis(r.P10US), millis(r.MedianUS), millis(r.P99US)}, r.Of.Columns(peers)...))
	}
	return Align(table)
}

func millis(us float64) string { return fmt.Sprintf("%.3f", us/1000) }

// Against are the titles of the columns of ratios.
func Against(peers []string) []string {
	titles := make([]string, len(peers))
	for i, peer := range peers {
		titles[i] = "of " + peer
	}
	return titles
}

// Columns are the ratios to peers.
func (r Ratios) Columns(peers []string) []string {
	list := make([]string, len(peers))
	for i, peer := range peers {
		list[i] = Figure("%.3g", r[peer])
	}
	return list
}

// Figure is a number, or a dash for one that is absent.
func Figure(format string, value float64) string {
	if value == 0 {
		return "-"
	}
	return fmt.Sprintf(format, value)
}

// Align puts names to the left and figures to the right of their columns. A row
// with a single remark keeps it as it is.
func Align(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		widths[0] = max(widths[0], len(row[0]))
		for i := 1; i < len(row) && len(row) == len(widths); i++ {
			widths[i] = max(widths[i], len(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&b, "  %-*s", widths[0], row[0])
		for i, text := range row[1:] {
			if len(row) < len(widths) {
				fmt.Fprintf(&b, "  %s", text)
			} else {
				fmt.Fprintf(&b, "  %*s", widths[i+1], text)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
