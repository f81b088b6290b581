package density

import (
	"time"

	"aether/lab"
)

// Options say how much is measured.
type Options struct {
	// Levels are the numbers of living sandboxes at which is measured, ascending.
	Levels []int
	// Rounds is how often each system gets there.
	Rounds int
	// Grow is how long a system may take to a level; it then goes no higher. One that does
	// not get to the first level is measured with as many as there are.
	Grow time.Duration
	// Settle is how long memory may take to settle, and Idle how long the processors are
	// watched.
	Settle, Idle time.Duration
	Progress     *lab.Progress
}
