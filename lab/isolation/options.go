package isolation

import (
	"cmp"
	"time"

	"aether/lab"
)

// Options say with what a driver is measured. The zero value works.
type Options struct {
	// Image is what the sandbox is made of; empty means the host's.
	Image string
	// Program is the path of aether-probe; empty means the one that is found as other programs
	// beside this one are.
	Program string
	// Patience bounds each step; zero means two minutes.
	Patience time.Duration
	// Progress is told what is being done, if it is not nil.
	Progress *lab.Progress
}

const defaultPatience = 2 * time.Minute

func (o Options) withDefaults() Options {
	o.Patience = cmp.Or(o.Patience, defaultPatience)
	o.Progress = cmp.Or(o.Progress, lab.NewProgress(nil))
	return o
}
