package snapshot

import (
	"time"

	"aether/lab"
)

// Options say how much is measured.
type Options struct {
	// Sizes are the MiB of live memory, of which each is measured so many Rounds; Copies
	// are the numbers of copies of a source of run.ScoredMiB.
	Sizes  []int
	Copies []int
	Rounds int
	// Budget is how long one system may take; what it has not come to by then is absent.
	Budget time.Duration
	// Dir is where snapshots are kept meanwhile; empty means that of temporary files.
	Dir      string
	Progress *lab.Progress
}
