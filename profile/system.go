package profile

import (
	"fmt"
	"slices"
	"strings"

	"aether/sandbox"
)

// System is one of the judged isolation systems.
type System int

// The systems in canonical order: the core seven, then the rest of the field.
const (
	AetherVM System = iota
	Firecracker
	CloudHypervisor
	GVisor
	Kata
	QEMU
	Docker

	Cell
	Crun
	Youki
	Bubblewrap
	Nspawn
	Incus
	VZ
	Lima
	OrbStack
	UTM
)

// entry is all that is known of one system.
type entry struct {
	name     string
	aliases  []string
	boundary sandbox.Boundary
	scores   Scores
	evidence [axisCount]string
	byDesign []Axis
	notes    *FieldNotes
}

// systems is indexed by System.
var systems = slices.Concat(core, field)

// All lists every system in canonical order.
func All() []System { return first(len(systems)) }

// Core lists the core seven in canonical order.
func Core() []System { return first(len(core)) }

func first(n int) []System {
	list := make([]System, n)
	for i := range list {
		list[i] = System(i)
	}
	return list
}

// Parse reads a system by its name or an alias, in any case. Errors: Invalid,
// wrapping an UnknownError.
func Parse(s string) (System, error) {
	same := func(name string) bool { return strings.EqualFold(s, name) }
	for i, e := range systems {
		if same(e.name) || slices.ContainsFunc(e.aliases, same) {
			return System(i), nil
		}
	}
	return 0, unknown("system", s, names(), aliases())
}

func names() []string {
	list := make([]string, len(systems))
	for i, e := range systems {
		list[i] = e.name
	}
	return list
}

func aliases() []string {
	var list []string
	for _, e := range systems {
		list = append(list, e.aliases...)
	}
	return list
}

// Name is the canonical name, as "cloud-hypervisor".
func (s System) Name() string { return systems[s].name }

// String is Name, and is safe for values that are no system.
func (s System) String() string {
	if s < 0 || int(s) >= len(systems) {
		return fmt.Sprintf("system(%d)", int(s))
	}
	return s.Name()
}

// Aliases are the other names that Parse accepts.
func (s System) Aliases() []string { return slices.Clone(systems[s].aliases) }

// Boundary is what stands between the system's guests and the host.
func (s System) Boundary() sandbox.Boundary { return systems[s].boundary }

// MarshalText makes systems read as their names in JSON.
func (s System) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
