package fork

import (
	"fmt"
	"strings"
	"time"
)

// Text draws the report for people.
func (r Report) Text() string {
	took := time.Duration(r.TookSeconds * float64(time.Second)).Round(time.Second)
	sections := []string{
		fmt.Sprintf("Forks by %s: %d interleaved rounds, %v in all, load %.2f before and %.2f after\n", r.Driver, r.Rounds, took, r.LoadBefore, r.LoadAfter),
		"To the first reply of an interpreter, ms\n" + rowTable(r.First),
		"The source stands still, ms\n" + rowTable(r.Pause),
		"Claim of a child that is ready, to its first byte, ms\n" + rowTable(r.Claim),
		"Children of a python3 with 64 MiB of data, made by one call\n" + crowdTable(r.Crowds),
		"Targets for forks\n" + verdictLines(r.Targets),
	}
	return strings.Join(sections, "\n")
}

func rowTable(rows []Row) string {
	table := [][]string{{"", "p10", "median", "p99"}}
	for _, row := range rows {
		if row.Skipped != "" {
			table = append(table, []string{row.Name, "skipped: " + row.Skipped})
			continue
		}
		table = append(table, []string{row.Name, millis(row.P10US), millis(row.MedianUS), millis(row.P99US)})
	}
	return align(table)
}

func crowdTable(rows []Crowd) string {
	table := [][]string{{"children", "seconds", "KiB each", "MiB in all"}}
	for _, c := range rows {
		if c.Skipped != "" {
			table = append(table, []string{fmt.Sprint(c.Children), "skipped: " + c.Skipped})
			continue
		}
		table = append(table, []string{fmt.Sprint(c.Children), fmt.Sprintf("%.3f", c.Seconds), figure("%.0f", c.EachKiB), figure("%.1f", c.TotalMiB)})
	}
	return align(table)
}

// figure is a number, or a dash for one that is absent.
func figure(format string, value float64) string {
	if value == 0 {
		return "-"
	}
	return fmt.Sprintf(format, value)
}

func millis(us float64) string { return fmt.Sprintf("%.3f", us/1000) }

func verdictLines(list []Verdict) string {
	var b strings.Builder
	for _, v := range list {
		b.WriteString(v.text())
	}
	return b.String()
}

func (v Verdict) text() string {
	if v.Open != "" {
		return fmt.Sprintf("  open    %s, %s: %s\n", v.Target, v.Unit, v.Open)
	}
	figure := fmt.Sprintf("%s: %.4g %s, target %.4g", v.Target, v.Value, v.Unit, v.Limit)
	if v.Met {
		return "  met     " + figure + "\n"
	}
	text := fmt.Sprintf("  MISSED  %s, by %.0f%%\n", figure, 100*(v.Value/v.Limit-1))
	if len(v.Spent) > 0 {
		text += "          spent on " + partsText(v.Spent) + "\n"
	}
	return text
}

func partsText(parts []Part) string {
	list := make([]string, len(parts))
	for i, p := range parts {
		list[i] = fmt.Sprintf("%s %.0f", p.Name, p.MedianUS)
	}
	return strings.Join(list, ", ") + " (us)"
}

// align puts names to the left and figures to the right of their columns. A row
// with a single remark keeps it as it is.
func align(rows [][]string) string {
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
