package fork

import (
	"cmp"

	"aether/lab"
	"aether/sandbox"
)

// Options say how much is measured.
type Options struct {
	// Rounds is how often each start is measured; zero means DefaultRounds.
	Rounds int
	// Children is the largest crowd; zero means DefaultChildren.
	Children int
	// Restorers are measured beside it: systems that restore what they have saved.
	Restorers []sandbox.Driver
	// Progress is told what is being measured, if it is not nil.
	Progress *lab.Progress
}

// What is measured where nothing else is asked for.
const (
	DefaultRounds   = 30
	DefaultChildren = 1000
	maxCount        = 100_000
)

// Validate names the field that is out of range.
func (o Options) Validate() error {
	return cmp.Or(lab.InRange("rounds", o.Rounds, maxCount), lab.InRange("children", o.Children, maxCount))
}

func (o Options) withDefaults() Options {
	o.Rounds, o.Children = cmp.Or(o.Rounds, DefaultRounds), cmp.Or(o.Children, DefaultChildren)
	o.Progress = cmp.Or(o.Progress, lab.NewProgress(nil))
	return o
}
