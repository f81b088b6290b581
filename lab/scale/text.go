package scale

import (
	"fmt"
	"strings"

	"aether/lab"
)

// Text draws the report for people.
func (r Report) Text() string {
	on := ""
	if r.HostNetwork {
		on = " on the host's network"
	}
	sections := []string{
		fmt.Sprintf("Crowds of %s%s: %d rounds up and down, %s\n", r.Driver, on, r.Rounds, r.Course()),
		"With so many others alive, median (p99), ms\n" + r.times(),
		r.plot(),
		"Each of them holds\n" + r.holdings(),
		"Targets for growth\n" + lab.Verdicts(r.Targets),
	}
	return strings.Join(sections, "\n")
}

func (r Report) times() string {
	table := [][]string{{"alive", "life", "create", "command", "end", "exec", "fork", "made, each"}}
	for _, l := range r.Levels {
		row := []string{fmt.Sprint(l.Alive)}
		if l.Skipped != "" {
			table = append(table, append(row, "skipped: "+l.Skipped))
			continue
		}
		row = append(row, pair(l.Life), part(l.Life, lapCreate), part(l.Life, lapCommand), part(l.Life, lapEnd), pair(l.Exec), pair(l.Fork), lab.Figure("%.2f", l.MakeUS/1000))
		table = append(table, row)
	}
	text := lab.Align(table)
	if r.Ending != nil {
		text += fmt.Sprintf("  %d were ended by %d workers in %.2f ms each\n", r.Ending.Sandboxes, r.Ending.Workers, r.Ending.EachUS/1000)
	}
	return text
}

func pair(row lab.Row) string {
	if row.Samples == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.1f)", row.MedianUS/1000, row.P99US/1000)
}

func part(row lab.Row, name string) string {
	for _, p := range row.Parts {
		if p.Name == name {
			return fmt.Sprintf("%.2f", p.Value/1000)
		}
	}
	return "-"
}

func (r Report) holdings() string {
	table := [][]string{{"alive", "KiB of the host", "KiB of this program", "descriptors", "goroutines", "processors busy"}}
	for _, l := range r.Levels {
		if e := l.Each; e != nil {
			table = append(table, []string{fmt.Sprint(l.Alive), fmt.Sprintf("%.0f", e.HostKiB), fmt.Sprintf("%.1f", e.ProgramKiB),
				fmt.Sprintf("%.2f", e.Descriptors), fmt.Sprintf("%.2f", e.Goroutines), fmt.Sprintf("%.0f%%", 100*e.HostBusy)})
		}
	}
	return lab.Align(table)
}

// plotWidth is that of the longest bar.
const plotWidth = 50

// plot draws how the medians grow: flat is what is wanted.
func (r Report) plot() string {
	var b strings.Builder
	for _, curve := range []struct {
		name string
		of   func(Level) lab.Row
	}{
		{"life", func(l Level) lab.Row { return l.Life }}, {"exec", func(l Level) lab.Row { return l.Exec }}, {"fork", func(l Level) lab.Row { return l.Fork }},
	} {
		drawCurve(&b, curve.name, r.Levels, curve.of)
	}
	return b.String()
}

func drawCurve(b *strings.Builder, name string, levels []Level, of func(Level) lab.Row) {
	var most, least float64
	for _, l := range levels {
		if us := of(l).MedianUS; us > 0 {
			most = max(most, us)
			if least == 0 {
				least = us
			}
		}
	}
	if most == 0 {
		return
	}
	fmt.Fprintf(b, "%s, times that of the first\n", name)
	for _, l := range levels {
		if us := of(l).MedianUS; us > 0 {
			fmt.Fprintf(b, "  %6d %s %.2f\n", l.Alive, strings.Repeat("█", max(1, int(us/most*plotWidth+0.5))), us/least)
		}
	}
}
