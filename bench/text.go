package main

import (
	"fmt"
	"strings"
	"time"
)

// text draws the report for people.
func (r report) text() string {
	sections := []string{
		r.head(),
		"Cold spawn to the first byte of a static program's output, ms\n" + latencyTable(r.Cold),
		"Exec of the same program in a living sandbox, to its first byte, ms\n" + latencyTable(r.Exec),
		"Memory of an idle sandbox, from the host's available memory, KiB\n" + footprintTable(r.Idle),
		fmt.Sprintf("Sandboxes made, used and removed in a second by %d workers\n", r.Host.Cores) + rateTable(r.Churn),
		"Targets for cell\n" + r.verdicts(),
	}
	if text := r.Forks.text(); text != "" {
		sections = append(sections, text)
	}
	return strings.Join(sections, "\n") + "\n"
}

func (r report) head() string {
	var b strings.Builder
	h := r.Host
	fmt.Fprintf(&b, "Linux %s %s, %d cores, %d MiB, as %s, load %.2f before and %.2f after\n",
		h.Kernel, h.Arch, h.Cores, h.MemoryMiB, h.User, h.LoadBefore, h.LoadAfter)
	fmt.Fprintf(&b, "%d interleaved rounds, %v in all\n", r.Rounds, time.Duration(r.TookSeconds*float64(time.Second)).Round(time.Second))
	for _, s := range r.Systems {
		if s.Skipped != "" {
			fmt.Fprintf(&b, "%s is skipped: %s\n", s.Name, s.Skipped)
		} else if s.Version != "" {
			fmt.Fprintf(&b, "%s is %s\n", s.Name, s.Version)
		}
	}
	return b.String()
}

func latencyTable(rows []latency) string {
	table := [][]string{{"system", "p10", "median", "p99", "of bwrap", "of crun"}}
	for _, l := range rows {
		if l.Skipped != "" {
			table = append(table, []string{l.System, "skipped: " + l.Skipped})
			continue
		}
		table = append(table, append([]string{l.System, millis(l.P10US), millis(l.MedianUS), millis(l.P99US)}, l.columns()...))
	}
	return align(table)
}

func footprintTable(rows []footprint) string {
	table := [][]string{{"system", "each", "live", "of bwrap", "of crun"}}
	for _, f := range rows {
		if f.Skipped != "" {
			table = append(table, []string{f.System, "skipped: " + f.Skipped})
			continue
		}
		table = append(table, append([]string{f.System, fmt.Sprintf("%.0f", f.EachKiB), fmt.Sprint(f.Live)}, f.columns()...))
	}
	return align(table)
}

func rateTable(rows []rate) string {
	table := [][]string{{"system", "median", "worst slice", "of bwrap", "of crun"}}
	for _, r := range rows {
		if r.Skipped != "" {
			table = append(table, []string{r.System, "skipped: " + r.Skipped})
			continue
		}
		table = append(table, append([]string{r.System, fmt.Sprintf("%.0f", r.PerSecond), fmt.Sprintf("%.0f", r.WorstRate)}, r.columns()...))
	}
	return align(table)
}

func (r ratios) columns() []string { return []string{ratioText(r.OfBwrap), ratioText(r.OfCrun)} }

func ratioText(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3g", v)
}

func millis(us float64) string { return fmt.Sprintf("%.3f", us/1000) }

func (r report) verdicts() string {
	var b strings.Builder
	for _, v := range r.Targets {
		b.WriteString(v.text())
	}
	return b.String()
}

func (v verdict) text() string {
	if v.Open != "" {
		return fmt.Sprintf("  open    %s, %s: %s\n", v.Target, v.Unit, v.Open)
	}
	figure := fmt.Sprintf("%s: %.4g %s, target %g", v.Target, v.Value, v.Unit, v.Limit)
	if v.Met {
		return "  met     " + figure + "\n"
	}
	return fmt.Sprintf("  MISSED  %s, by %.0f%%\n          spent on %s\n", figure, 100*v.MissedBy, partsText(v.SpentOn, v.SpentOnUnit))
}

func partsText(parts []part, unit string) string {
	list := make([]string, len(parts))
	for i, p := range parts {
		list[i] = fmt.Sprintf("%s %.0f", p.Name, p.Value)
	}
	return strings.Join(list, ", ") + " (" + unit + ")"
}

// align puts names to the left and figures to the right of their columns. A row
// with a single remark keeps it as it is.
func align(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		if len(row) < len(widths) {
			widths[0] = max(widths[0], len(row[0]))
			continue
		}
		for i, text := range row {
			widths[i] = max(widths[i], len(text))
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
