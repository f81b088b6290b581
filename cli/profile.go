package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"aether/profile"
)

func profileCommand(drivers *drivers) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile NAME",
		Short: "Show the scores of one isolation system and the evidence behind them",
		Long:  "Show the scores of one isolation system, the evidence behind each and, where it has\nthem, its ratings from practice.",
		Example: `  aether profile firecracker
  aether profile bwrap --json`,
		Args:              exactly(1, "one system"),
		ValidArgsFunction: completeSystems(1),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		system, err := profile.Parse(args[0])
		if err != nil {
			return err
		}
		driven := drivenBy(drivers.Names())
		if *asJSON {
			return printJSON(cmd, fullProfile{system.Profile(), driven.has(system), append([]string{}, system.Aliases()...), system.FieldNotes()})
		}
		return printText(cmd, describe(screenOf(cmd.OutOrStdout()), system, driven))
	}
	return cmd
}

// fullProfile is the JSON answer.
type fullProfile struct {
	profile.Profile
	Driver     bool                `json:"driver"`
	Aliases    []string            `json:"aliases"`
	FieldNotes *profile.FieldNotes `json:"field_notes,omitempty"`
}

const profileBar = 20

func describe(s screen, system profile.System, driven drivenSystems) string {
	p := system.Profile()
	var b strings.Builder
	b.WriteString(s.paint(bold, driven.markName(system)) + "\n")
	for _, fact := range facts(system, driven) {
		fmt.Fprintf(&b, "  %-13s%s\n", fact.name, fact.value)
	}
	writeScore(&b, s, "fitness", p.Fitness.String(), p.Fitness.Float(), len(p.ByDesign) > 0)
	for _, a := range profile.Axes() {
		writeScore(&b, s, a.String(), p.Score(a).String(), p.Score(a).Float(), p.IsByDesign(a))
		b.WriteString("\n" + paragraph(p.Evidence[a], "    ", s.prose()))
	}
	return b.String() + driven.footnotes(s, []profile.Profile{p})
}

type fact struct{ name, value string }

func facts(system profile.System, driven drivenSystems) []fact {
	list := []fact{{"boundary", system.Boundary().String()}, {"driver", "none in this build"}}
	if driven.has(system) {
		list[1].value = "in this build"
	}
	if aliases := system.Aliases(); len(aliases) > 0 {
		list = append(list, fact{"aliases", strings.Join(aliases, ", ")})
	}
	if n := system.FieldNotes(); n != nil {
		list = append(list, fact{"field notes",
			fmt.Sprintf("isolation %v/5, efficiency %v/5, maintenance %v/5", n.Isolation, n.Efficiency, n.Maintenance)})
	}
	return list
}

func writeScore(b *strings.Builder, s screen, name, number string, value float64, byDesign bool) {
	fmt.Fprintf(b, "\n  %-14s %s", name, s.paint(barStyle(value), scoreText(number, bar(value, profileBar), byDesign)))
}
