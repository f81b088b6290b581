package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	labrun "aether/lab/run"
	"aether/sandbox"
)

func labCompareCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "compare RUN1 RUN2", Short: "Say what changed from one run to another, beyond noise",
		Long: "Compare the samples of every figure that both runs have, with the rank-sum test of Mann and Whitney at 1%, by Holm's method\n" +
			"for as many figures as there are. How often the same test sees a change where there is none is measured on halves of\n" +
			"the runs themselves. A run compared with itself has not changed. Whether both rank the systems alike, where overlapping\n" +
			"intervals are ties, and whether ratios to bubblewrap's cold start are within 15% is said too; with --agree the exit status\n" +
			"is 1 if not.",
		Example: "  aether lab compare BEFORE AFTER\n  aether lab compare ./run ./run\n  aether lab compare BEFORE last --json\n  aether lab compare ONCE AGAIN --agree",
		Args:    exactly(2, "two runs"),
	}
	json := jsonFlag(cmd)
	all := cmd.Flags().Bool("all", false, "also list the figures that did not change")
	agree := cmd.Flags().Bool("agree", false, "fail if the runs do not tell the same")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var runs [2][]labrun.Record
		for i, name := range args {
			dir, err := findRun(name)
			if err != nil {
				return err
			}
			if runs[i], err = labrun.Read(dir); err != nil {
				return err
			}
		}
		c, err := labrun.Compare(runs[0], runs[1])
		if err != nil {
			return err
		}
		if *json {
			err = printJSON(cmd, c)
		} else {
			err = printText(cmd, compareText(c, *all, screenOf(cmd.OutOrStdout())))
		}
		if err == nil && *agree && !c.Agreement.Agree {
			err = &sandbox.Error{Class: sandbox.Conflict, Op: "lab", Reason: fmt.Sprintf("the runs %s and %s do not agree", c.A, c.B), Remedy: "repeat them when the host is quiet"}
		}
		return err
	}
	return cmd
}

func compareText(c labrun.Comparison, all bool, s screen) string {
	t := table{titles: []string{"system", "figure", "at", c.A, c.B, "ratio", "p"}}
	changed := 0
	for _, x := range c.Changes {
		if x.Changed {
			changed++
		} else if !all {
			continue
		}
		ratio := cell{"-", dim}
		if x.A > 0 {
			ratio = text(fmt.Sprintf("%.3g", x.B/x.A))
		}
		t.rows = append(t.rows, []cell{text(x.System), text(x.Axis + " " + x.Figure), text(fmt.Sprintf("%g", x.At)), text(fmt.Sprintf("%.4g %s", x.A, x.Unit)),
			text(fmt.Sprintf("%.4g", x.B)), ratio, text(fmt.Sprintf("%.2g", x.P))})
	}
	lines := []string{fmt.Sprintf("%d of %d figures changed from %s to %s beyond noise.", changed, len(c.Changes), c.A, c.B)}
	if len(t.rows) > 0 {
		lines = append(lines, t.render(s))
	}
	for _, x := range c.Scores {
		lines = append(lines, fmt.Sprintf("%s, %s: score %.2f, then %.2f", x.System, x.Axis, x.A, x.B))
	}
	lines = append(lines, paragraph(alarmsText(c), "", s.prose()), paragraph(agreementText(c.Agreement), "", s.prose()))
	return strings.Join(lines, "\n")
}

func alarmsText(c labrun.Comparison) string {
	text := "No figure has enough samples to tell how often the test is wrong."
	if c.Alarms.Tries > 0 {
		text = fmt.Sprintf("False alarms of the test, on halves of these runs: %.2f%% by lot (%d pairs; %.0f%% are expected), %.0f%% between first and last halves (%d pairs), which is what the host's drift adds.",
			100*c.Alarms.Shuffled, c.Alarms.Tries, 100*labrun.Alpha, 100*c.Alarms.InTime, c.Alarms.TriesInTime)
	}
	if c.Uncompared > 0 {
		text += fmt.Sprintf(" %d figures have too few samples, or are in one run only.", c.Uncompared)
	}
	return text
}

func agreementText(a labrun.Agreement) string {
	text := fmt.Sprintf("Of %d pairs of systems, on every axis and by fitness, both runs rank %d alike or tied.", a.Pairs, a.Pairs-len(a.Contradicted))
	for _, c := range a.Contradicted {
		text += fmt.Sprintf(" On %s, the first has %s before %s, and the second the other way round.", c.On, c.First, c.Second)
	}
	within := 0
	for _, r := range a.Ratios {
		if r.Apart <= a.Within {
			within++
		}
	}
	text += fmt.Sprintf(" Of %d ratios to the cold start of %s, %d are within %.0f%%.", len(a.Ratios), a.Base, within, 100*a.Within)
	for _, r := range a.Ratios {
		if r.Apart > a.Within {
			text += fmt.Sprintf(" %s by %s: %.3g, then %.3g.", r.System, r.Figure, r.A, r.B)
		}
	}
	return text
}
