package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"aether/profile"
)

func profileCommand() *cobra.Command {
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
		if *asJSON {
			return printJSON(cmd, fullProfile{system.Profile(), append([]string{}, system.Aliases()...), system.FieldNotes()})
		}
		return printText(cmd, describe(screenOf(cmd.OutOrStdout()), system))
	}
	return cmd
}

// fullProfile is the JSON answer.
type fullProfile struct {
	profile.Profile
	Aliases    []string            `json:"aliases"`
	FieldNotes *profile.FieldNotes `json:"field_notes,omitempty"`
}

const profileBar = 20

func describe(s screen, system profile.System) string {
	p := system.Profile()
	var b strings.Builder
	b.WriteString(s.paint(bold, system.Name()) + "\n")
	for _, fact := range facts(system) {
		fmt.Fprintf(&b, "  %-13s%s\n", fact.name, fact.value)
	}
	writeScore(&b, s, "fitness", p.Fitness.String(), p.Fitness.Float())
	for _, a := range profile.Axes() {
		writeScore(&b, s, a.String(), p.Score(a).String(), p.Score(a).Float())
		b.WriteString("\n" + paragraph(p.Evidence[a], "    ", s.prose()))
	}
	return b.String()
}

type fact struct{ name, value string }

func facts(system profile.System) []fact {
	list := []fact{{"boundary", system.Boundary().String()}}
	if aliases := system.Aliases(); len(aliases) > 0 {
		list = append(list, fact{"aliases", strings.Join(aliases, ", ")})
	}
	if n := system.FieldNotes(); n != nil {
		list = append(list, fact{"field notes",
			fmt.Sprintf("isolation %v/5, efficiency %v/5, maintenance %v/5", n.Isolation, n.Efficiency, n.Maintenance)})
	}
	return list
}

func writeScore(b *strings.Builder, s screen, name, number string, value float64) {
	fmt.Fprintf(b, "\n  %-14s %s", name, s.paint(barStyle(value), number+" "+bar(value, profileBar)))
}
