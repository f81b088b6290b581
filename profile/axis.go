package profile

import (
	"fmt"
	"strings"
)

// Axis is one of the five questions that every system is judged by.
type Axis int

// The axes, in the order in which everything about them is listed.
const (
	StartLatency Axis = iota
	Density
	Isolation
	Snapshotting
	AgentControl

	axisCount = iota
)

var axes = [axisCount]struct{ name, field, short, question, best string }{
	{"start-latency", "start_latency", "start",
		"how fast is a fresh, isolated sandbox ready?", "under 100 ms"},
	{"density", "density", "density",
		"how many sandboxes fit on a host?", "microVM or container class"},
	{"isolation", "isolation", "isolation",
		"how strong is the boundary against untrusted code?", "hardware virtualization with a minimal attack surface"},
	{"snapshotting", "snapshotting", "snapshot",
		"can a warm template be forked, kept and restored at once?", "first-class live branching"},
	{"agent-control", "agent_control", "agent-control",
		"can an agent discover and drive the lifecycle itself?", "tool-native control plane"},
}

// Axes lists the five axes in their order.
func Axes() []Axis {
	return []Axis{StartLatency, Density, Isolation, Snapshotting, AgentControl}
}

// ParseAxis reads an axis by any of its names, in any case. Errors: Invalid,
// wrapping an UnknownError.
func ParseAxis(s string) (Axis, error) {
	for i, a := range axes {
		if strings.EqualFold(s, a.name) || strings.EqualFold(s, a.field) || strings.EqualFold(s, a.short) {
			return Axis(i), nil
		}
	}
	return 0, unknown("axis", s, axisNames(), axisSpellings())
}

func axisNames() []string {
	names := make([]string, axisCount)
	for i, a := range axes {
		names[i] = a.name
	}
	return names
}

func axisSpellings() []string {
	var list []string
	for _, a := range axes {
		list = append(list, a.field, a.short)
	}
	return list
}

// String is the name on the command line, as "start-latency".
func (a Axis) String() string {
	if a < 0 || a >= axisCount {
		return fmt.Sprintf("axis(%d)", int(a))
	}
	return axes[a].name
}

// Field is the name in JSON, as "start_latency".
func (a Axis) Field() string { return axes[a].field }

// Short is the name in a profile's one-line rendering, as "start".
func (a Axis) Short() string { return axes[a].short }

// Question is what the axis asks of a system.
func (a Axis) Question() string { return axes[a].question }

// Best is what a score of 1.0 means.
func (a Axis) Best() string { return axes[a].best }

// MarshalText makes axes read as their names in JSON.
func (a Axis) MarshalText() ([]byte, error) { return []byte(a.String()), nil }
