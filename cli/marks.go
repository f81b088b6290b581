package cli

import (
	"strings"

	"aether/profile"
)

// Marks tell what is judged from what exists. A mark follows a number or a name;
// what it means stands below.
const (
	designMark = "*"
	noDriver   = "†"
)

// drivenSystems are the names of the systems that this build has drivers for.
type drivenSystems map[string]bool

func drivenBy(names []string) drivenSystems {
	driven := drivenSystems{}
	for _, name := range names {
		driven[name] = true
	}
	return driven
}

func (d drivenSystems) has(s profile.System) bool { return d[s.Name()] }

// markName is the system's name, marked if it has no driver.
func (d drivenSystems) markName(s profile.System) string {
	if d.has(s) {
		return s.Name()
	}
	return s.Name() + noDriver
}

// markScore is a number, marked if it is given by design.
func markScore(number string, byDesign bool) string {
	if byDesign {
		return number + designMark
	}
	return number
}

// footnotes say what the marks mean that are used for these systems, each on
// lines of its own behind an empty one; nothing where none is used.
func (d drivenSystems) footnotes(s screen, shown []profile.Profile) string {
	var notes []string
	undriven := d.withoutDriver(shown)
	if anyByDesign(shown) {
		notes = append(notes, designMark+" given by design, wholly or in part: for what is planned, not for what exists or was measured")
	}
	if len(undriven) > 0 {
		notes = append(notes, noDriver+" judged only: this build has no driver for "+strings.Join(undriven, ", "))
	}
	if len(notes) == 0 {
		return ""
	}
	for i, note := range notes {
		lines := strings.Split(paragraph(note, "", s.prose()), "\n")
		for j, line := range lines {
			lines[j] = s.paint(dim, line)
		}
		notes[i] = strings.Join(lines, "\n")
	}
	return "\n\n" + strings.Join(notes, "\n")
}

func (d drivenSystems) withoutDriver(shown []profile.Profile) []string {
	var names []string
	for _, p := range shown {
		if !d.has(p.System) {
			names = append(names, p.System.Name())
		}
	}
	return names
}

func anyByDesign(shown []profile.Profile) bool {
	for _, p := range shown {
		if len(p.ByDesign) > 0 {
			return true
		}
	}
	return false
}
