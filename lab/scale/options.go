package scale

import (
	"cmp"

	"aether/lab"
	"aether/sandbox"
)

// Options say how much is measured.
type Options struct {
	// Rounds is how often everything is measured at each level, on the way up and on
	// the way down; zero means DefaultRounds.
	Rounds int
	// Alive is the highest level; zero means DefaultAlive.
	Alive int
	// HostNetwork has the sandboxes on the host's network, without net namespaces of their own.
	HostNetwork bool
	// Progress is told what is being measured, if it is not nil.
	Progress *lab.Progress
}

// What is measured where nothing else is asked for.
const (
	DefaultRounds = 50
	DefaultAlive  = 10_000
	maxRounds     = 10_000
	maxAlive      = 100_000
)

// steps are the usual numbers of living sandboxes.
var steps = []int{10, 100, 1000, 4000, 10_000}

// Validate names the field that is out of range.
func (o Options) Validate() error {
	return cmp.Or(lab.InRange("rounds", o.Rounds, maxRounds), lab.InRange("alive", o.Alive, maxAlive))
}

func (o Options) withDefaults() Options {
	o.Rounds, o.Alive = cmp.Or(o.Rounds, DefaultRounds), cmp.Or(o.Alive, DefaultAlive)
	o.Progress = cmp.Or(o.Progress, lab.NewProgress(nil))
	return o
}

// spec is what every sandbox is.
func (o Options) spec() (s sandbox.Spec) {
	if o.HostNetwork {
		s.Network.Mode = sandbox.HostNetwork
	}
	return s
}

// levels are the steps up to the highest level, and that one.
func (o Options) levels() (list []int) {
	for _, n := range steps {
		if n < o.Alive {
			list = append(list, n)
		}
	}
	return append(list, o.Alive)
}
