package score

import "time"

// Kept says what a copy of a running sandbox still has.
type Kept struct{ Files, Memory, Descriptors, Sockets, Connections bool }

// share weighs what is kept: memory is half of it.
func (k Kept) share() (sum float64) {
	for _, part := range []struct {
		kept   bool
		weight float64
	}{{k.Files, 0.25}, {k.Memory, 0.5}, {k.Descriptors, 0.125}, {k.Sockets, 0.0625}, {k.Connections, 0.0625}} {
		if part.kept {
			sum += part.weight
		}
	}
	return sum
}

// Copying is what copies of a sandbox with 64 MiB of live memory cost.
type Copying struct {
	// Branch is the time to a copy that answers, by the fastest way there is.
	Branch time.Duration
	// Still is how long the source stands still meanwhile.
	Still time.Duration
	// Shared is the share of the live memory that a copy does not hold itself.
	Shared float64
}

// Snapshotting is the score of what is kept times how it is had: two fifths for having it
// at all, and a fifth each for how soon a copy answers, how short its source stands still
// and how much memory both share. What keeps nothing scores 0.
func Snapshotting(kept Kept, c Copying) float64 {
	return kept.share() * (2 + Latency(c.Branch) + Latency(c.Still) + min(1, max(0, c.Shared))) / 5
}
