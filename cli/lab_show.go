package cli

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	labreport "aether/lab/report"
	labrun "aether/lab/run"
	"aether/profile"
	"aether/sandbox"
)

func labShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show [RUN]", Short: "Show what a run found out",
		Long: "Show the scores of a run beside the profiles', and where both disagree. --why adds what each score rests on, and every\n" +
			"figure; --csv prints the figures as a table, --html a page with pictures and every sample, --svg the ranking as a picture,\n" +
			"--json everything.",
		Example: "  aether lab show\n  aether lab show ./run --why\n  aether lab show 20260101-120000 --html > report.html",
		Args:    atMostOne("a run"),
	}
	why := cmd.Flags().Bool("why", false, "add what each score rests on, and every figure")
	csv := cmd.Flags().Bool("csv", false, "print the figures as CSV")
	html := cmd.Flags().Bool("html", false, "print a page that needs nothing else")
	svg := cmd.Flags().Bool("svg", false, "print the ranking as a picture")
	json := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := findRun(strings.Join(args, ""))
		if err != nil {
			return err
		}
		forms := 0
		for _, form := range []*bool{csv, html, svg, json} {
			if *form {
				forms++
			}
		}
		r, err := labrun.Load(dir)
		switch {
		case err != nil:
			return err
		case forms > 1:
			return sandbox.Invalidf("--csv, --html, --svg, --json", "they cannot be combined")
		case *html:
			return labreport.Of(cmd.OutOrStdout(), dir)
		case *svg:
			return labreport.Picture(cmd.OutOrStdout(), r)
		case *json:
			return printJSON(cmd, r)
		case *csv:
			var table bytes.Buffer
			if err := r.WriteCSV(&table); err != nil {
				return err
			}
			return printText(cmd, strings.TrimSuffix(table.String(), "\n"))
		}
		s := screenOf(cmd.OutOrStdout())
		text := labText(r, s)
		if *why {
			text += labWhy(r, s)
		}
		return printText(cmd, text)
	}
	return cmd
}

// labText is the host, the scores, and what is absent or disputed.
func labText(r labrun.Run, s screen) string {
	paragraphs := []string{paragraph(hostText(r), "", s.prose()), paragraph(busyText(r), "", s.prose()), labTable(r).render(s)}
	if notes := labNotes(r, s); notes != "" {
		paragraphs = append(paragraphs, notes)
	}
	return strings.Join(paragraphs, "\n\n")
}

func hostText(r labrun.Run) string {
	h := r.Host
	where := "on its own processors"
	if h.Virtualized {
		where = "virtualized"
	}
	state := ""
	if !r.Complete {
		state = " The run is not complete: aether lab run --out DIR goes on."
	}
	kind := "whole"
	if r.Quick {
		kind = "quick"
	}
	return fmt.Sprintf("Run %s, %s, %v: Linux %s %s, %d x %s, %s, %d MiB, as %s.%s", r.ID, kind, (time.Duration(r.TookSeconds * float64(time.Second))).Round(time.Second),
		h.Kernel, h.Arch, h.Cores, h.CPU, where, h.MemoryMiB, h.User, state)
}

func busyText(r labrun.Run) string {
	if r.Busy.Said {
		return fmt.Sprintf("The machine was busy: others used up to %.0f%% of the processors while the lab did nothing (load %.2f). Read times as upper bounds, and repeat the run when it is quiet.",
			100*r.Busy.Most, r.Busy.Load)
	}
	return fmt.Sprintf("The machine was quiet: others used at most %.0f%% of the processors in %d looks.", 100*r.Busy.Most, r.Busy.Looks)
}

// labTable has the measured score of each axis, and the profile's behind a slash.
func labTable(r labrun.Run) table {
	t := table{titles: []string{"system"}}
	for _, axis := range r.Axes {
		t.titles = append(t.titles, shortOf(axis))
	}
	t.titles = append(t.titles, "boundary")
	for _, m := range measuredOf(r).ranked(profile.ByFitness, nil) {
		row := []cell{text(m.System)}
		for _, axis := range r.Axes {
			row = append(row, besideCell(m.Axis(axis)))
		}
		t.rows = append(t.rows, append(row, text(m.Boundary)))
	}
	return t
}

// besideCell is a measured score with the curated one.
func besideCell(a *labrun.Axis) cell {
	if a == nil {
		return cell{"-", dim}
	}
	measured, style := "-", dim
	if a.Score != nil {
		measured, style = fmt.Sprintf("%.2f", *a.Score), barStyle(*a.Score)
	}
	if a.Curated != nil {
		measured += fmt.Sprintf(" / %.2f", *a.Curated)
	}
	return cell{measured, style}
}

// labNotes say what the numbers are, what is absent and where profiles disagree.
func labNotes(r labrun.Run, s screen) string {
	lines := []string{paragraph("Each is measured / curated.", "", s.prose())}
	for _, one := range r.Results {
		if one.Absent != "" {
			lines = append(lines, paragraph(visible(fmt.Sprintf("%s was not measured: %s", one.System, one.Absent)), "", s.prose()))
		}
	}
	for reason, names := range absences(r) {
		lines = append(lines, paragraph(visible(fmt.Sprintf("No score of %s: %s", names, reason)), "", s.prose()))
	}
	for _, one := range r.Results {
		for _, a := range one.Axes {
			if a.Disagreement != "" {
				lines = append(lines, paragraph(visible(fmt.Sprintf("%s, %s: %s", one.System, a.Axis, a.Disagreement)), "", s.prose()))
			}
		}
	}
	return strings.Join(lines, "\n")
}

// absences are axes without a score, by the reason.
func absences(r labrun.Run) func(func(reason, names string) bool) {
	type absence struct{ axis, reason string }
	var order []absence
	systems := map[absence][]string{}
	for _, one := range r.Results {
		for _, a := range one.Axes {
			if a.Score != nil {
				continue
			}
			key := absence{a.Axis, a.Absent}
			if systems[key] == nil {
				order = append(order, key)
			}
			systems[key] = append(systems[key], one.System)
		}
	}
	return func(yield func(reason, names string) bool) {
		for _, key := range order {
			if !yield(key.reason, key.axis+" of "+strings.Join(systems[key], ", ")) {
				return
			}
		}
	}
}

// labWhy is what each score rests on, with the figures.
func labWhy(r labrun.Run, s screen) string {
	var b strings.Builder
	for _, one := range r.Results {
		for _, a := range one.Axes {
			if a.Score == nil {
				continue
			}
			fmt.Fprintf(&b, "\n\n%s %s\n%s", s.paint(bold, one.System+", "+a.Axis), s.paint(barStyle(*a.Score), fmt.Sprintf("%.2f", *a.Score)),
				paragraph(visible(a.Why), "  ", s.prose()))
			if len(a.Figures) > 0 {
				b.WriteString("\n" + indented(figuresTable(a).render(s), "  "))
			}
			for _, f := range a.Facts {
				b.WriteString("\n" + paragraph(visible(fmt.Sprintf("%s by %s: %s: %s", f.Fact, f.By, yesNo(f.Holds), f.Proof)), "  ", s.prose()))
			}
			for _, m := range a.Missing {
				b.WriteString("\n" + paragraph(visible(fmt.Sprintf("without %s: %s", m.What, m.Reason)), "  ", s.prose()))
			}
		}
	}
	return b.String()
}

func yesNo(holds bool) string {
	if holds {
		return "yes"
	}
	return "no"
}

func indented(text, by string) string { return by + strings.ReplaceAll(text, "\n", "\n"+by) }

func figuresTable(a labrun.Axis) table {
	t := table{titles: []string{"figure", "at", "samples", "median", "p99", "spread", "unit"}}
	for _, f := range a.Figures {
		t.rows = append(t.rows, []cell{text(f.Figure), text(fmt.Sprintf("%g", f.At)), text(fmt.Sprint(f.Samples)), text(fmt.Sprintf("%.4g", f.Median)),
			text(fmt.Sprintf("%.4g", f.P99)), text(fmt.Sprintf("%.3g", f.Spread)), text(string(f.Unit))})
	}
	return t
}
