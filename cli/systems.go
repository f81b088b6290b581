package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"aether/profile"
	"aether/sandbox"
)

func systemsCommand(drivers *drivers) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "systems",
		Short: "List the isolation systems and whether they can run here",
		Long: `List every isolation system, its boundary, and whether this host can run it; where it cannot,
why and what would mend it. Then what its sandboxes can do beyond running commands: be paused,
kept as a snapshot, restored from one, and forked while they run. A fidelity says what of a
sandbox is carried over:

  filesystem   files; processes start anew
  checkpoint   files and memory, copied
  live         files and memory, pages shared copy-on-write

Last, which networks its sandboxes can have: none, egress (what a policy allows, and nothing
else), nat (the same by address, through the kernel) or the host's own.`,
		Example: `  aether systems
  aether systems --json`,
		Args: noArguments,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list := availabilities(cmd.Context(), drivers.All())
		if *asJSON {
			return printJSON(cmd, list)
		}
		s := screenOf(cmd.OutOrStdout())
		return printText(cmd, systemsText(list, s))
	}
	return cmd
}

// availability is one entry of the JSON answer.
type availability struct {
	System   string           `json:"system"`
	Boundary sandbox.Boundary `json:"boundary"`
	Driver   bool             `json:"driver"`
	// Verbs and Networks are nil without a driver.
	Verbs    *sandbox.Verbs    `json:"verbs,omitempty"`
	Networks *sandbox.Networks `json:"networks,omitempty"`
	sandbox.Report
}

// availabilities are those of all judged systems in canonical order, then those
// of drivers for systems that nobody has judged.
func availabilities(ctx context.Context, drivers []sandbox.Driver) []availability {
	var list []availability
	place := map[string]int{}
	for _, s := range profile.All() {
		place[s.Name()] = len(list)
		list = append(list, availability{System: s.Name(), Boundary: s.Boundary(),
			Report: sandbox.Report{Reason: "no driver in this build"}})
	}
	for i, report := range probeAll(ctx, drivers) {
		info := drivers[i].Info()
		a := availability{info.Name, info.Boundary, true, &info.Verbs, &info.Networks, report}
		if at, judged := place[info.Name]; judged {
			list[at] = a
		} else {
			list = append(list, a)
		}
	}
	return list
}

// systemsText is the table. Its notes are a column, or stand below each system
// where the screen is too narrow for one.
func systemsText(list []availability, s screen) string {
	t := table{titles: []string{"system", "boundary", "here", "pause", "snapshot", "restore", "fork", "network"}}
	for _, a := range list {
		t.rows = append(t.rows, append([]cell{text(a.System), text(a.Boundary.String()), a.here()}, append(a.verbs(), a.networks())...))
	}
	const leastRoom = 40
	if s.width == 0 || s.width-t.width() >= leastRoom {
		notes := func(row int) []string { return list[row].notes() }
		return t.withNotes("note", notes, s.width).render(s)
	}
	lines := strings.Split(t.render(s), "\n")
	text := []string{lines[0]}
	for i, a := range list {
		text = append(text, lines[i+1])
		for _, note := range a.notes() {
			text = append(text, paragraph(note, "    ", s.width))
		}
	}
	return strings.Join(text, "\n")
}

// verbs are the cells of what sandboxes of the system can do.
func (a availability) verbs() []cell {
	none := cell{"-", dim}
	if a.Verbs == nil {
		return []cell{none, none, none, none}
	}
	list := []cell{none}
	if a.Verbs.Pause {
		list[0] = cell{"yes", green}
	}
	for _, f := range []sandbox.Fidelity{a.Verbs.Snapshot, a.Verbs.Restore, a.Verbs.Fork} {
		if f == "" {
			list = append(list, none)
		} else {
			list = append(list, text(string(f)))
		}
	}
	return list
}

// networks are the modes that sandboxes of the system can have.
func (a availability) networks() cell {
	if a.Networks == nil {
		return cell{"-", dim}
	}
	modes := "none"
	for _, mode := range []sandbox.NetworkMode{sandbox.EgressNetwork, sandbox.NatNetwork, sandbox.HostNetwork} {
		if a.Networks.Has(mode) {
			modes += " " + string(mode)
		}
	}
	return text(modes)
}

// here is not an answer where there is no driver to ask.
func (a availability) here() cell {
	switch {
	case !a.Driver:
		return cell{"-", dim}
	case a.Usable:
		return cell{"yes", green}
	}
	return cell{"no", red}
}

// notes are the version found or the reason against, then what the host lacks.
func (a availability) notes() []string {
	var notes []string
	for _, note := range []string{a.Version, withRemedy(a.Reason, a.Remedy)} {
		if note != "" {
			notes = append(notes, visible(note))
		}
	}
	for _, g := range a.Gaps {
		notes = append(notes, visible(withRemedy(fmt.Sprintf("without %s: %s", g.Missing, g.Cost), g.Remedy)))
	}
	return notes
}

func withRemedy(reason, remedy string) string {
	if remedy == "" {
		return reason
	}
	return reason + " (" + remedy + ")"
}
