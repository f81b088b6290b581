package program

import (
	"cmp"
	"slices"
	"strings"

	"aether/lab"
)

// Names of the rows.
const (
	rowEmpty    = "empty Go program"
	rowVersion  = "aether version"
	rowBwrap    = "bwrap true"
	rowRun      = "aether run -- true"
	rowTemplate = "aether run --template T -c CODE"
	rowInit     = "initialisation of aether's packages"
)

// Targets that the program is held to.
const (
	targetVersion = 1.8
	targetRun     = 2.0
)

// Report is everything that was found out. A value that was not measured is
// absent, never zero.
type Report struct {
	// Runs are from the start of a process to its end.
	Runs []lab.Row `json:"runs"`
	// Init is what the Go runtime says that packages took before main, and its
	// parts are the dearest of them.
	Init    lab.Row       `json:"initialisation"`
	Targets []lab.Verdict `json:"targets"`
}

// dearest is how many packages are named.
const dearest = 5

// newReport tells runs from the initialisation, which is a share of one of them.
func newReport(rows []lab.Row) (r Report) {
	for _, row := range rows {
		if row.Name == rowInit {
			r.Init = row
		} else {
			r.Runs = append(r.Runs, row)
		}
	}
	slices.SortStableFunc(r.Init.Parts, func(a, b lab.Part) int { return cmp.Compare(b.Value, a.Value) })
	r.Init.Parts, r.Init.TailParts = r.Init.Parts[:min(dearest, len(r.Init.Parts))], nil
	lab.CompareRows(r.Runs, rowEmpty, rowBwrap)
	r.Targets = judge(r)
	return r
}

func judge(r Report) []lab.Verdict {
	empty, version := lab.Find(r.Runs, rowEmpty), lab.Find(r.Runs, rowVersion)
	bwrap, run := lab.Find(r.Runs, rowBwrap), lab.Find(r.Runs, rowRun)
	return []lab.Verdict{
		lab.AtMost(rowVersion+", median", "times an empty Go program's", lab.Of(version.MedianUS, empty.MedianUS), targetVersion, r.Init.Parts),
		lab.AtMost(rowRun+", median", "times bwrap's", lab.Of(run.MedianUS, bwrap.MedianUS), targetRun, run.Parts),
	}
}

// Text draws the report for people.
func (r Report) Text() string {
	return strings.Join([]string{
		"Whole runs of programs, from the start of the process to its end, ms\n" + lab.Times(r.Runs, rowEmpty, rowBwrap),
		"The Go runtime's account of what came before main, ms\n" + lab.Times([]lab.Row{r.Init}) + lab.Dearest(r.Init.Parts),
		"Targets for the program\n" + lab.Verdicts(r.Targets),
	}, "\n")
}
