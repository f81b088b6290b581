package cgroup

import (
	"math"

	"aether/sandbox"
)

// Limits bound a group. A zero field is no bound.
type Limits struct {
	Memory int64   // bytes, swap included
	CPUs   float64 // of processor time in each unit of time
	Pids   int64   // processes and threads
}

// period is the kernel's own default, in microseconds; leaving it alone saves a
// write for each group.
const period = 100_000

func (l Limits) validate() error {
	switch {
	case l.Memory < 0 || l.Memory > 0 && l.Memory < sandbox.MinMemory:
		return sandbox.Invalidf("limits.memory", "%d bytes is less than the least limit, %d", l.Memory, sandbox.MinMemory)
	case math.IsNaN(l.CPUs) || l.CPUs < 0 || l.CPUs > 0 && l.CPUs < 0.01 || l.CPUs > 4096:
		return sandbox.Invalidf("limits.cpus", "%v is not between 0.01 and 4096", l.CPUs)
	case l.Pids < 0 || l.Pids > 4<<20:
		return sandbox.Invalidf("limits.processes", "%d is not between 1 and %d", l.Pids, 4<<20)
	}
	return nil
}

// quota is the processor time for each period, in microseconds.
func (l Limits) quota() int64 { return int64(math.Round(l.CPUs * period)) }

// needs is the set of controllers without which the limits do not hold.
func (l Limits) needs() Controller {
	var set Controller
	if l.Memory > 0 {
		set |= Memory
	}
	if l.Pids > 0 {
		set |= Pids
	}
	if l.CPUs > 0 {
		set |= CPU
	}
	return set
}
