package fork

import (
	"math"
	"slices"
	"time"
)

// Report is everything that a run found out. A value that was not measured is
// absent, never zero.
type Report struct {
	Driver      string  `json:"driver"`
	Rounds      int     `json:"rounds"`
	TookSeconds float64 `json:"took_seconds"`
	LoadBefore  float64 `json:"load_before"`
	LoadAfter   float64 `json:"load_after"`
	// First are times to the first reply of an interpreter.
	First []Row `json:"first_reply"`
	// Pause is how long forks stopped their sources.
	Pause []Row `json:"source_paused"`
	// Claim is from a claim of a pool to the first byte of the child.
	Claim []Row `json:"pool_claim"`
	// Crowds are many children of one source at once.
	Crowds  []Crowd   `json:"crowds"`
	Targets []Verdict `json:"targets"`
}

// Row is one way to an interpreter that answers.
type Row struct {
	Name     string  `json:"name"`
	P10US    float64 `json:"p10_us,omitempty"`
	MedianUS float64 `json:"median_us,omitempty"`
	P99US    float64 `json:"p99_us,omitempty"`
	Samples  int     `json:"samples,omitempty"`
	// Parts are medians, and say where the time went.
	Parts []Part `json:"parts,omitempty"`
	// Skipped is why there is no figure.
	Skipped string `json:"skipped,omitempty"`
}

// Part is a share of a time.
type Part struct {
	Name     string  `json:"name"`
	MedianUS float64 `json:"median_us"`
}

// Crowd is so many children of one source, made by one call.
type Crowd struct {
	Children int     `json:"children"`
	Seconds  float64 `json:"seconds,omitempty"`
	// EachKiB and TotalMiB are what the host's available memory lost to them;
	// absent where that cannot be told from what else the host did meanwhile.
	EachKiB  float64 `json:"each_kib,omitempty"`
	TotalMiB float64 `json:"total_mib,omitempty"`
	Skipped  string  `json:"skipped,omitempty"`
}

// weigh finds out what the children hold from the memory that was used before,
// with and after them. What does not come back when they end was not
// theirs: if that is more than a quarter of the figure, there is none.
func (c *Crowd) weigh(before, with, after int64) {
	held, drift := with-(before+after)/2, after-before
	if held <= 0 || max(drift, -drift) > held/4 {
		return
	}
	c.EachKiB, c.TotalMiB = float64(held)/float64(c.Children)/1024, float64(held)/(1<<20)
}

// Names of the rows that targets are about.
const (
	rowFork      = "fork, python3 with 20 modules"
	rowFresh     = "fresh in a sandbox, the same"
	rowBwrap     = "fresh in bwrap, the same"
	rowZygote    = "os.fork of a python3, no sandbox"
	rowTemplate  = "fork of a template, the same"
	rowFork256   = "fork, python3 with 256 MiB of data"
	rowFork1024  = "fork, python3 with 1 GiB of data"
	rowForkNode  = "fork, node"
	rowFreshNode = "fresh in a sandbox, node"
	rowRestore   = "restore by %s, python3 with 20 modules"
	rowCriu      = "restore by CRIU, the same, no sandbox"
	rowClaim     = "claim from a pool, python3 with 20 modules"
	rowWaiting   = "line to one forked by os.fork, no sandbox"
)

// sample is one measured start.
type sample struct {
	total time.Duration
	parts []part
	// pause is how long the source stood still; zero if nobody says.
	pause time.Duration
}

type part struct {
	name string
	took time.Duration
}

func newRow(name string, samples []sample) Row {
	totals := make([]time.Duration, len(samples))
	for i, s := range samples {
		totals[i] = s.total
	}
	row := rowOf(name, totals)
	for i, p := range samples[0].parts {
		took := make([]time.Duration, len(samples))
		for n, s := range samples {
			took[n] = s.parts[i].took
		}
		row.Parts = append(row.Parts, Part{p.name, rowOf("", took).MedianUS})
	}
	return row
}

func rowOf(name string, times []time.Duration) Row {
	slices.Sort(times)
	return Row{Name: name, P10US: quantile(times, 0.1), MedianUS: quantile(times, 0.5), P99US: quantile(times, 0.99), Samples: len(times)}
}

// quantile is the nearest-rank one: a value that was really measured.
func quantile(sorted []time.Duration, q float64) float64 {
	at := max(0, int(math.Ceil(q*float64(len(sorted))))-1)
	return float64(sorted[at].Nanoseconds()) / 1000
}

// pauses is the row of how long the source of a row's forks stood still.
func pauses(name string, samples []sample) Row {
	var times []time.Duration
	for _, s := range samples {
		if s.pause > 0 {
			times = append(times, s.pause)
		}
	}
	if len(times) == 0 {
		return Row{Name: name, Skipped: "the driver does not say"}
	}
	return rowOf(name, times)
}

func find(rows []Row, name string) Row {
	for _, row := range rows {
		if row.Name == name {
			return row
		}
	}
	return Row{}
}
