package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	labrun "aether/lab/run"
)

func labCompareCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "compare RUN1 RUN2", Short: "Say what changed from one run to another, beyond noise",
		Long: "Compare the samples of every figure that both runs have, with the rank-sum test of Mann and Whitney at 1%, by Holm's method\n" +
			"for as many figures as there are. How often the same test sees a change where there is none is measured on halves of\n" +
			"the runs themselves. A run compared with itself has not changed.",
		Example: "  aether lab compare BEFORE AFTER\n  aether lab compare ./run ./run\n  aether lab compare BEFORE last --json",
		Args:    exactly(2, "two runs"),
	}
	json := jsonFlag(cmd)
	all := cmd.Flags().Bool("all", false, "also list the figures that did not change")
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
			return printJSON(cmd, c)
		}
		return printText(cmd, compareText(c, *all, screenOf(cmd.OutOrStdout())))
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
	lines = append(lines, paragraph(alarmsText(c), "", s.prose()))
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
