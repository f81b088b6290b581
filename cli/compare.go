package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"aether/profile"
)

func compareCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two isolation systems, axis by axis",
		Long:  "Compare two isolation systems. Positive numbers mean that A fits better.",
		Example: `  aether compare aethervm firecracker
  aether compare qemu docker --why
  aether compare gvisor kata --json`,
		Args:              exactly(2, "two systems"),
		ValidArgsFunction: completeSystems(2),
	}
	why := cmd.Flags().Bool("why", false, "add the evidence behind each score")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := profile.Parse(args[0])
		if err != nil {
			return err
		}
		b, err := profile.Parse(args[1])
		if err != nil {
			return err
		}
		return printComparison(cmd, profile.Compare(a, b), *why, *asJSON)
	}
	return cmd
}

// explainedComparison is the JSON answer; Why is there only if it was asked for.
type explainedComparison struct {
	profile.Comparison
	Why []axisReason `json:"why,omitempty"`
}

// axisReason is the evidence of both systems on one axis.
type axisReason struct {
	Axis profile.Axis `json:"axis"`
	A    string       `json:"a"`
	B    string       `json:"b"`
}

func printComparison(cmd *cobra.Command, c profile.Comparison, why, asJSON bool) error {
	if asJSON {
		answer := explainedComparison{Comparison: c}
		if why {
			answer.Why = reasons(c)
		}
		return printJSON(cmd, answer)
	}
	s := screenOf(cmd.OutOrStdout())
	text := paintDeltas(s, c.String())
	if why {
		text += explain(s, c)
	}
	return printText(cmd, text)
}

func reasons(c profile.Comparison) []axisReason {
	a, b := c.A.Profile(), c.B.Profile()
	var list []axisReason
	for _, axis := range profile.Axes() {
		list = append(list, axisReason{axis, a.Evidence[axis], b.Evidence[axis]})
	}
	return list
}

// paintDeltas colours the number that ends each line and changes nothing else.
func paintDeltas(s screen, comparison string) string {
	lines := strings.Split(comparison, "\n")
	for i, line := range lines {
		at := strings.LastIndexByte(line, ' ') + 1
		lines[i] = line[:at] + s.paint(deltaStyle(line[at:]), line[at:])
	}
	return strings.Join(lines, "\n")
}

func explain(s screen, c profile.Comparison) string {
	var b strings.Builder
	for _, r := range reasons(c) {
		fmt.Fprintf(&b, "\n\n%s: %s", s.paint(bold, r.Axis.String()), r.Axis.Question())
		for _, side := range []struct {
			system   profile.System
			evidence string
		}{{c.A, r.A}, {c.B, r.B}} {
			score := side.system.Profile().Score(r.Axis)
			fmt.Fprintf(&b, "\n  %s %s\n%s", side.system, s.paint(barStyle(score.Float()), score.String()),
				paragraph(side.evidence, "    ", s.prose()))
		}
	}
	return b.String()
}
