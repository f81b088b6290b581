package cgroup

import (
	"fmt"
	"strings"

	"aether/sandbox"
)

// Controller is a set of the things that groups can do.
type Controller uint8

const (
	Memory Controller = 1 << iota
	Pids
	CPU
	IO      // how fast disks are read and written
	account // processor time, where only version 1 counts it
	freezer // killing without a race, where only version 1 offers it
)

const (
	// usual are the controllers that hold Limits. Where groups are made depends on
	// which of them are to be had.
	usual = Memory | Pids | CPU
	// limiting are those and the one that holds Rates.
	limiting = usual | IO
)

var controllerNames = []struct {
	bit    Controller
	name   string // as the kernel spells it
	legacy string // as it does for version 1
}{{Memory, "memory", "memory"}, {Pids, "pids", "pids"}, {CPU, "cpu", "cpu"}, {IO, "io", "blkio"},
	{account, "cpuacct", "cpuacct"}, {freezer, "freezer", "freezer"}}

func (c Controller) String() string {
	var names []string
	for _, known := range controllerNames {
		if c&known.bit != 0 {
			names = append(names, known.name)
		}
	}
	return strings.Join(names, ", ")
}

// first is the name of one controller of the set in version 1.
func (c Controller) first() string {
	for _, known := range controllerNames {
		if c&known.bit != 0 {
			return known.legacy
		}
	}
	return ""
}

func parseControllers(names []string) Controller {
	var set Controller
	for _, name := range names {
		for _, known := range controllerNames {
			if name == known.name || name == known.legacy {
				set |= known.bit
			}
		}
	}
	return set
}

// Layout is how a host mounts its control groups.
type Layout string

const (
	NoLayout Layout = "none"
	V1       Layout = "v1"
	Hybrid   Layout = "hybrid" // limits by version 1, and an empty version 2 beside
	V2       Layout = "v2"
)

// Hierarchy is where on this host groups can be made, and what they can do.
type Hierarchy struct {
	Layout  Layout
	trees   []tree
	missing map[Controller]*sandbox.Error
}

// tree is one mounted hierarchy that has a part in our groups.
type tree struct {
	base    string // the directory in which the program's parent group goes
	holds   Controller
	unified bool
	// crowded: this process is in base and has to leave it for a group of its
	// own before version 2 allows controllers below.
	crowded bool
}

// Holds says which limits can be held.
func (h *Hierarchy) Holds() Controller { return h.held() & limiting }

func (h *Hierarchy) held() Controller {
	var set Controller
	for _, t := range h.trees {
		set |= t.holds
	}
	return set
}

// Enforces is nil if every limit that is set can be held here; otherwise it is
// Unavailable, names the field, and says why and what would mend it.
func (h *Hierarchy) Enforces(l Limits) error {
	if err := l.validate(); err != nil {
		return err
	}
	lacking := l.needs() &^ h.Holds()
	for _, known := range controllerNames {
		if lacking&known.bit != 0 {
			return h.Missing(known.bit)
		}
	}
	return nil
}

var fields = map[Controller]string{Memory: "limits.memory", Pids: "limits.processes", CPU: "limits.cpus", IO: readField}

// Missing is nil if the one controller c is usable, otherwise why it is not.
func (h *Hierarchy) Missing(c Controller) error {
	if h.Holds()&c == c {
		return nil
	}
	if why := h.missing[c]; why != nil {
		return why
	}
	return unavailable(c, fmt.Sprintf("no cgroup file system with the %v controller is mounted", c),
		"mount one, or boot with cgroup_no_v1=all and systemd")
}

func unavailable(c Controller, reason, remedy string) *sandbox.Error {
	return &sandbox.Error{Class: sandbox.Unavailable, Op: "cgroup", Field: fields[c], Reason: reason, Remedy: remedy}
}
