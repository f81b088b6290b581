package monitor

import (
	"fmt"
	"strings"

	"aether/lab"
)

// Report is everything that a run found out. A value that was not measured is absent, never
// zero.
type Report struct {
	lab.Circumstances
	Peer string `json:"peer"`
	// Boot is from nothing to the first byte of the first command. What a new machine goes on
	// from, if it does not boot, was there before.
	Boot []lab.Row `json:"boot"`
	// Copy is to the first reply of the guest service of a copy, in which nobody has asked
	// for anything before.
	Copy []lab.Row `json:"copy"`
	// Snapshot is until everything is in files.
	Snapshot []lab.Row `json:"snapshot"`
	// Still is how long a machine stands still that is copied.
	Still []lab.Row `json:"source_paused"`
	// Crowds are children of one machine.
	Crowds  []Crowd       `json:"crowds,omitempty"`
	Targets []lab.Verdict `json:"targets"`
}

// Crowd is so many children of one machine, made by one call. All have answered when they are
// weighed, and then once more after a command in each.
type Crowd struct {
	Children int     `json:"children"`
	Seconds  float64 `json:"seconds"`
	Replied  Weight  `json:"replied"`
	Ran      Weight  `json:"ran"`
}

// Weight is what each child holds on average, in KiB: of what several processes share, its
// part.
type Weight struct {
	// GuestKiB is memory of the guest, of which OwnKiB are pages that no other process has.
	GuestKiB float64 `json:"guest_kib"`
	OwnKiB   float64 `json:"guest_own_kib"`
	// MonitorKiB is everything else that the monitor's process has, with its page tables.
	MonitorKiB float64 `json:"monitor_kib"`
	// HostKiB is what the host's used memory has grown by, with all that its kernel keeps.
	HostKiB float64    `json:"host_kib,omitempty"`
	Parts   []lab.Part `json:"host_parts,omitempty"`
}

// What is measured, by its name after that of the system.
const (
	boot     = ", boot"
	create   = ", new machine"
	fork     = ", fork"
	load     = ", load of a snapshot"
	snapshot = ", snapshot"
	// commands and freeze follow those: who stands still.
	commands = ", its commands"
	freeze   = ", its processors"
)

// Targets of a monitor, as shares of its peer's times, and in KiB.
const (
	targetBoot     = 0.8
	targetFork     = 0.3
	targetSnapshot = 0.7
	targetStill    = 0.05
	targetGuest    = 0.8 * 1024
	targetMonitor  = 3 * 1024
	targetChildren = 100
)

func (r Report) judge() []lab.Verdict {
	of := func(target string, rows []lab.Row, ours, theirs string, limit float64) lab.Verdict {
		row := lab.Find(rows, r.Driver+ours)
		return lab.AtMost(target, "of "+r.Peer+theirs, lab.Of(row.MedianUS, lab.Find(rows, r.Peer+theirs).MedianUS), limit, row.Parts)
	}
	return append([]lab.Verdict{
		of("new machine, to the first byte of a command", r.Boot, create, boot, targetBoot),
		of("boot, to the first byte of a command", r.Boot, boot, boot, targetBoot),
		of("fork to the first reply", r.Copy, fork, load, targetFork),
		of("snapshot", r.Snapshot, snapshot, snapshot, targetSnapshot),
		of("processors of a machine that is forked stand still", r.Still, fork+freeze, fork+freeze, targetStill),
		of("commands of a machine that is forked stand still", r.Still, fork+commands, fork+commands, targetStill),
	}, JudgeCrowds(r.Crowds)...)
}

// JudgeCrowds holds them against the targets.
func JudgeCrowds(crowds []Crowd) []lab.Verdict {
	guest, monitor := "pages of the guest of a child that has replied", "monitor of a child that has replied"
	if len(crowds) == 0 || crowds[0].Children < targetChildren {
		why := fmt.Sprintf("there were no %d children", targetChildren)
		return []lab.Verdict{lab.Undecided(guest, "KiB", targetGuest, why), lab.Undecided(monitor, "KiB", targetMonitor, why)}
	}
	worst := crowds[0].Replied
	for _, c := range crowds {
		worst.GuestKiB, worst.MonitorKiB = max(worst.GuestKiB, c.Replied.GuestKiB), max(worst.MonitorKiB, c.Replied.MonitorKiB)
	}
	return []lab.Verdict{lab.AtMost(guest, "KiB", worst.GuestKiB, targetGuest, nil), lab.AtMost(monitor, "KiB", worst.MonitorKiB, targetMonitor, nil)}
}

// Text draws the report for people.
func (r Report) Text() string {
	sections := []string{
		fmt.Sprintf("%s beside %s: %d interleaved rounds, %s\n", r.Driver, r.Peer, r.Rounds, r.Course()),
		"From nothing to the first byte of a command, ms\n" + lab.Times(r.Boot, r.Peer+boot),
		"To the first reply of a copy, ms\n" + lab.Times(r.Copy, r.Peer+load),
		"Until a snapshot is in files, ms\n" + lab.Times(r.Snapshot, r.Peer+snapshot),
		"A machine that is copied stands still, ms\n" + lab.Times(r.Still, r.Peer+fork+freeze),
	}
	if len(r.Crowds) > 0 {
		sections = append(sections, "Children of "+r.Driver+" by one call, KiB each\n"+CrowdTable(r.Crowds))
	}
	return strings.Join(append(sections, "Targets\n"+lab.Verdicts(r.Targets)), "\n")
}

// CrowdTable draws crowds for people.
func CrowdTable(crowds []Crowd) string {
	table := [][]string{{"children", "seconds", "weighed", "guest", "its own", "monitor", "host"}}
	for _, c := range crowds {
		for _, w := range []struct {
			when string
			Weight
		}{{"after a reply", c.Replied}, {"after a command", c.Ran}} {
			table = append(table, []string{fmt.Sprint(c.Children), fmt.Sprintf("%.1f", c.Seconds), w.when,
				lab.Figure("%.0f", w.GuestKiB), lab.Figure("%.0f", w.OwnKiB), lab.Figure("%.0f", w.MonitorKiB), lab.Figure("%.0f", w.HostKiB)})
		}
	}
	text := lab.Align(table)
	if last := crowds[len(crowds)-1].Replied; last.HostKiB > 0 {
		text += lab.Dearest(last.Parts)
	}
	return text
}
