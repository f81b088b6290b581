package monitor

import (
	"cmp"

	"aether/lab"
)

// Options say how much is measured.
type Options struct {
	// Image is what the machines are made of, and MemoryBytes what each has.
	Image       string
	MemoryBytes int64
	// Dir is where snapshots are kept.
	Dir string
	// Cold, if it has a name, is the driver that is measured, where it boots every machine.
	Cold lab.System
	// Rounds is how often each way is measured; zero means DefaultRounds.
	Rounds int
	// Children are made by one call, Crowds times. Zero has none be made.
	Children, Crowds int
	// Progress is told what is being measured, if it is not nil.
	Progress *lab.Progress
}

// DefaultRounds is where nothing else is asked for.
const DefaultRounds = 5

const maxCount = 10_000

// Validate names the field that is out of range.
func (o Options) Validate() error {
	return cmp.Or(lab.InRange("rounds", o.Rounds, maxCount), lab.InRange("children", o.Children, maxCount), lab.InRange("crowds", o.Crowds, maxCount))
}

func (o Options) withDefaults() Options {
	o.Rounds = cmp.Or(o.Rounds, DefaultRounds)
	o.Progress = cmp.Or(o.Progress, lab.NewProgress(nil))
	return o
}
