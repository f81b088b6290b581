package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"aether/profile"
	"aether/sandbox"
)

func systemsCommand(drivers []sandbox.Driver) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "systems",
		Short: "List the isolation systems and whether they can run here",
		Long:  "List every isolation system, its boundary, whether this build has a driver for it and\nwhether this host can run it; where it cannot, why and what would mend it.",
		Example: `  aether systems
  aether systems --json`,
		Args: noArguments,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list := availabilities(cmd.Context(), drivers)
		if *asJSON {
			return printJSON(cmd, list)
		}
		s := screenOf(cmd.OutOrStdout())
		return printText(cmd, systemsTable(list, s.width).render(s))
	}
	return cmd
}

// availability is one entry of the JSON answer.
type availability struct {
	System   string           `json:"system"`
	Boundary sandbox.Boundary `json:"boundary"`
	Driver   bool             `json:"driver"`
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
		a := availability{info.Name, info.Boundary, true, report}
		if at, judged := place[info.Name]; judged {
			list[at] = a
		} else {
			list = append(list, a)
		}
	}
	return list
}

// systemsTable wraps its last column so that the table fits into width, if it is
// not 0.
func systemsTable(list []availability, width int) table {
	t := table{titles: []string{"system", "boundary", "driver", "here", "note"}}
	for _, a := range list {
		t.rows = append(t.rows, []cell{text(a.System), text(a.Boundary.String()), yesNo(a.Driver), a.here(), text("")})
	}
	room := noteRoom(t.width()-len("note"), width)
	rows := t.rows
	t.rows = nil
	for i, a := range list {
		t.rows = append(t.rows, withNotes(rows[i], a.notes(), room)...)
	}
	return t
}

// noteRoom is what the other columns leave, and not so little that a note
// becomes a column of single words.
func noteRoom(used, width int) int {
	const least, unbounded = 20, 1 << 20
	if width == 0 {
		return unbounded
	}
	return max(width-used, least)
}

// withNotes puts the first line of the notes into the row's last cell, and each
// further one on a row of its own.
func withNotes(row []cell, notes []string, room int) [][]cell {
	last := len(row) - 1
	rows := [][]cell{row}
	for i, line := range wrapAll(notes, room) {
		if i > 0 {
			rows = append(rows, make([]cell, len(row)))
		}
		rows[i][last] = text(line)
	}
	return rows
}

func wrapAll(paragraphs []string, width int) []string {
	var lines []string
	for _, p := range paragraphs {
		lines = append(lines, wrap(p, width)...)
	}
	return lines
}

func yesNo(yes bool) cell {
	if yes {
		return cell{"yes", green}
	}
	return cell{"no", dim}
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
			notes = append(notes, note)
		}
	}
	for _, g := range a.Gaps {
		notes = append(notes, withRemedy(fmt.Sprintf("without %s: %s", g.Missing, g.Cost), g.Remedy))
	}
	return notes
}

func withRemedy(reason, remedy string) string {
	if remedy == "" {
		return reason
	}
	return reason + " (" + remedy + ")"
}
