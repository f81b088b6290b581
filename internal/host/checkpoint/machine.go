package checkpoint

import (
	"slices"
	"strings"
	"time"

	"aether/sandbox"
)

// Machine is what processes rely on without asking: they have called functions of
// the kernel's own pages by their addresses, chosen code by what the processor
// can do, and wait for times of a clock that began with the host.
type Machine struct {
	// Kernel is the digest of the pages that the kernel gives every process.
	Kernel string `json:"kernel"`
	// Processor is what it can do.
	Processor []string `json:"processor"`
	// Clock is how long the host had been running.
	Clock time.Duration `json:"clock"`
}

// Runs says whether processes that were kept on another machine, or on this one
// before, can go on here.
func (m Machine) Runs(was Machine) error {
	e := &sandbox.Error{Class: sandbox.Conflict, Field: "snapshot", Remedy: "restore its files alone, or bring it to a host that is alike"}
	for _, needed := range was.Processor {
		if !slices.Contains(m.Processor, needed) {
			e.Reason = "its processes were running on a processor that has " + clip(needed) + ", which this one has not"
			return e
		}
	}
	switch {
	case m.Kernel != was.Kernel:
		e.Reason = "its processes were running under another kernel"
	case m.Clock < was.Clock:
		e.Reason = "its processes were running when the host had been up for " + was.Clock.Round(time.Second).String() +
			", and this one has been for " + m.Clock.Round(time.Second).String() + ": their clock would go backwards"
	default:
		return nil
	}
	return e
}

func clip(s string) string { return s[:min(len(s), 80)] }

// processorFlags reads what /proc/cpuinfo says of the first processor.
func processorFlags(info string) []string {
	for line := range strings.SplitSeq(info, "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "flags" {
			return strings.Fields(value)
		}
	}
	return nil
}
