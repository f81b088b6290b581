package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"aether/profile"
)

func compareCommand(drivers *drivers) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two isolation systems, axis by axis",
		Long:  "Compare two isolation systems. Positive numbers mean that A fits better.",
		Example: `  aether compare aethervm firecracker
  aether compare qemu docker --why
  aether compare gvisor kata --json
  aether compare cell docker --measured last`,
		Args:              exactly(2, "two systems"),
		ValidArgsFunction: completeSystems(2),
	}
	why := cmd.Flags().Bool("why", false, "add the evidence behind each score")
	measured := cmd.Flags().String("measured", "", "compare by what a `RUN` of the lab measured on this host (last: the newest)")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("measured") {
			return compareMeasured(cmd, drivers, *measured, args, *why, *asJSON)
		}
		a, err := profile.Parse(args[0])
		if err != nil {
			return err
		}
		b, err := profile.Parse(args[1])
		if err != nil {
			return err
		}
		c := comparison{profile.Compare(a, b), drivenBy(drivers.Names())}
		return c.print(cmd, *why, *asJSON)
	}
	return cmd
}

// comparison is an answer of compare, and which systems this build drives.
type comparison struct {
	profile.Comparison
	driven drivenSystems
}

// explainedComparison is the JSON answer; Why is there only if it was asked for.
type explainedComparison struct {
	profile.Comparison
	Driver   sides[bool]           `json:"driver"`
	ByDesign sides[[]profile.Axis] `json:"by_design"`
	Why      []axisReason          `json:"why,omitempty"`
}

// sides is one fact about each of the two systems.
type sides[T any] struct {
	A T `json:"a"`
	B T `json:"b"`
}

// axisReason is the evidence of both systems on one axis.
type axisReason struct {
	Axis profile.Axis `json:"axis"`
	A    string       `json:"a"`
	B    string       `json:"b"`
}

func (c comparison) print(cmd *cobra.Command, why, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, c.answer(why))
	}
	s := screenOf(cmd.OutOrStdout())
	text := c.deltas(s) + c.driven.footnotes(s, profile.Profiles(c.A, c.B))
	if why {
		text += c.explain(s)
	}
	return printText(cmd, text)
}

func (c comparison) answer(why bool) explainedComparison {
	answer := explainedComparison{
		Comparison: c.Comparison,
		Driver:     sides[bool]{c.driven.has(c.A), c.driven.has(c.B)},
		ByDesign:   sides[[]profile.Axis]{c.A.Profile().ByDesign, c.B.Profile().ByDesign},
	}
	if why {
		answer.Why = c.reasons()
	}
	return answer
}

func (c comparison) reasons() []axisReason {
	a, b := c.A.Profile(), c.B.Profile()
	var list []axisReason
	for _, axis := range profile.Axes() {
		list = append(list, axisReason{axis, a.Evidence[axis], b.Evidence[axis]})
	}
	return list
}

// deltas is the comparison's own text, with the number that ends each line in
// colour and, where it rests on a score by design, marked.
func (c comparison) deltas(s screen) string {
	a, b := c.A.Profile(), c.B.Profile()
	lines := strings.Split(c.String(), "\n")
	for i, line := range lines {
		at := strings.LastIndexByte(line, ' ') + 1
		byDesign := len(a.ByDesign)+len(b.ByDesign) > 0
		if i > 0 {
			axis := c.AxisDeltas[i-1].Axis
			byDesign = a.IsByDesign(axis) || b.IsByDesign(axis)
		}
		lines[i] = line[:at] + s.paint(deltaStyle(line[at:]), markScore(line[at:], byDesign))
	}
	return strings.Join(lines, "\n")
}

func (c comparison) explain(s screen) string {
	var b strings.Builder
	for _, r := range c.reasons() {
		fmt.Fprintf(&b, "\n\n%s: %s", s.paint(bold, r.Axis.String()), r.Axis.Question())
		for _, side := range []struct {
			system   profile.System
			evidence string
		}{{c.A, r.A}, {c.B, r.B}} {
			p := side.system.Profile()
			score := p.Score(r.Axis)
			fmt.Fprintf(&b, "\n  %s %s\n%s", side.system, s.paint(barStyle(score.Float()), markScore(score.String(), p.IsByDesign(r.Axis))),
				paragraph(side.evidence, "    ", s.prose()))
		}
	}
	return b.String()
}
