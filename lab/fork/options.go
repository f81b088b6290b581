package fork

import (
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
	for _, field := range []struct {
		name  string
		value int
	}{{"rounds", o.Rounds}, {"children", o.Children}} {
		if field.value < 0 || field.value > maxCount {
			return sandbox.Invalidf(field.name, "%d is not between 1 and %d", field.value, maxCount)
		}
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Rounds == 0 {
		o.Rounds = DefaultRounds
	}
	if o.Children == 0 {
		o.Children = DefaultChildren
	}
	if o.Progress == nil {
		o.Progress = lab.NewProgress(nil)
	}
	return o
}
