package fork

import "aether/lab"

// Report is everything that a run found out. A value that was not measured is
// absent, never zero.
type Report struct {
	lab.Circumstances
	// First are times to the first reply of an interpreter.
	First []lab.Row `json:"first_reply"`
	// Pause is how long forks stopped their sources.
	Pause []lab.Row `json:"source_paused"`
	// Claim is from a claim of a pool to the first byte of the child.
	Claim []lab.Row `json:"pool_claim"`
	// Busy are times to the first reply beside a busy neighbour for each processor.
	Busy []lab.Row `json:"busy_host"`
	// Crowds are many children of one source at once.
	Crowds  []Crowd       `json:"crowds"`
	Targets []lab.Verdict `json:"targets"`
}

// Crowd is so many children of one source, made by one call.
type Crowd struct {
	Children int     `json:"children"`
	Seconds  float64 `json:"seconds,omitempty"`
	// EachKiB and TotalMiB are what the host's available memory lost to them;
	// absent where that cannot be told from what else the host did meanwhile.
	EachKiB  float64 `json:"each_kib,omitempty"`
	TotalMiB float64 `json:"total_mib,omitempty"`
	// NextUS is the median of the next forks, beside all of them.
	NextUS  float64 `json:"next_us,omitempty"`
	Skipped string  `json:"skipped,omitempty"`
}

// weigh finds out what the children hold from the memory that was used before,
// with and after them, in KiB. What does not come back when they end was not
// theirs: if that is more than a quarter of the figure, there is none.
func (c *Crowd) weigh(before, with, after int64) {
	held, drift := with-(before+after)/2, after-before
	if held <= 0 || max(drift, -drift) > held/4 {
		return
	}
	c.EachKiB, c.TotalMiB = float64(held)/float64(c.Children), float64(held)/1024
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

// sourceRows are those whose source stands still.
var sourceRows = []string{rowFork, rowFork256, rowFork1024, rowForkNode}
