package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"aether/host/kernel"
)

func doctorCommand() *cobra.Command { return doctorWith(kernel.Survey) }

// doctorWith takes the survey, so that hosts other than this one can be shown.
func doctorWith(survey func(context.Context) []kernel.Facility) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Explain what this host offers to sandboxes, and what its gaps cost",
		Long: "Try everything that sandboxes can use on this host, as this user: namespaces, control\n" +
			"groups, filters, virtualization. For each gap, say what it costs and what would mend it.\n" +
			"The exit status is 0 if the built-in engine can run here, and 1 if it cannot.",
		Example: `  aether doctor
  aether doctor --json
  sudo aether doctor`,
		Args: noArguments,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d := diagnosis{Facilities: survey(cmd.Context())}
		d.Usable = kernel.Sufficient(d.Facilities)
		if err := d.print(cmd, *asJSON); err != nil {
			return err
		}
		if !d.Usable {
			return exitCode(1)
		}
		return nil
	}
	return cmd
}

// diagnosis is the JSON answer.
type diagnosis struct {
	// Usable says that the built-in engine can run.
	Usable     bool              `json:"usable"`
	Facilities []kernel.Facility `json:"facilities"`
}

func (d diagnosis) print(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, d)
	}
	s := screenOf(cmd.OutOrStdout())
	return printText(cmd, d.table(s.width).render(s)+"\n\n"+d.verdict(s))
}

// table wraps its last column so that it fits into width, if that is not 0.
func (d diagnosis) table(width int) table {
	t := table{titles: []string{"", "facility"}}
	for _, f := range d.Facilities {
		t.rows = append(t.rows, []cell{symbol(f), text(f.Name)})
	}
	return t.withNotes("found", func(row int) []string { return findings(d.Facilities[row]) }, width)
}

// symbol is red only for what keeps the built-in engine from running.
func symbol(f kernel.Facility) cell {
	switch {
	case f.State == kernel.OK:
		return cell{"✓", green}
	case f.State == kernel.Limited:
		return cell{"!", yellow}
	case f.Required:
		return cell{"✗", red}
	}
	return cell{"✗", yellow}
}

func findings(f kernel.Facility) []string {
	lines := []string{oneLine(f.Detail)}
	if f.Cost != "" {
		lines = append(lines, "costs: "+f.Cost)
	}
	if f.Remedy != "" {
		lines = append(lines, "mends: "+f.Remedy)
	}
	return lines
}

func (d diagnosis) verdict(s screen) string {
	if !d.Usable {
		return s.paint(red, "The built-in engine cannot run on this host.")
	}
	gaps := 0
	for _, f := range d.Facilities {
		if f.State != kernel.OK {
			gaps++
		}
	}
	if gaps == 0 {
		return s.paint(green, "The built-in engine can run on this host, which lacks nothing.")
	}
	return s.paint(green, fmt.Sprintf("The built-in engine can run on this host. Gaps: %d.", gaps))
}
