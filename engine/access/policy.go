package access

import "aether/sandbox"

const (
	// A tenant's sandbox that states no limit, under a policy that states none, has
	// these: enough for a command and its libraries, and countable.
	defaultMemory = 512 << 20
	defaultDisk   = 1 << 30
)

// Policy is what a tenant may ask of a sandbox. The zero value allows what names
// nothing of the host; each field allows more, or asks for more.
type Policy struct {
	// Isolation is the weakest boundary that the tenant's sandboxes may have.
	Isolation sandbox.Boundary `json:"isolation,omitempty"`
	// Images are paths of images on the host, each allowed as it is written here.
	Images []string `json:"images,omitempty"`
	// Registries are where images may come from, as "ghcr.io" or "localhost:5000".
	// Empty is every registry with a public name.
	Registries []string `json:"registries,omitempty"`
	// Mounts are what of the host may be shown inside, each as it is written here:
	// a path below one of them may be a link by now that leads elsewhere.
	Mounts []AllowedMount `json:"mounts,omitempty"`
	// HostNetwork allows the host's own network.
	HostNetwork bool `json:"host_network,omitempty"`
	// NatNetwork allows networks that the kernel filters, by addresses.
	NatNetwork bool `json:"nat_network,omitempty"`
	// Egress are names and prefixes that are not public and may be reached all the
	// same, each as it is written here.
	Egress []string `json:"egress,omitempty"`
	// UnboundedMemory and UnboundedDisk allow sandboxes without these limits.
	UnboundedMemory bool `json:"unbounded_memory,omitempty"`
	UnboundedDisk   bool `json:"unbounded_disk,omitempty"`
	// DefaultLimits are those of sandboxes that state none, and MaxLimits the largest
	// that may be stated. Zero is none.
	DefaultLimits sandbox.Limits `json:"default_limits,omitzero"`
	MaxLimits     sandbox.Limits `json:"max_limits,omitzero"`
}

// AllowedMount is a path of the host that a tenant may mount anywhere inside.
type AllowedMount struct {
	Source   string `json:"source"`
	Writable bool   `json:"writable,omitempty"`
}

// Complete states what a tenant left open and the policy does not: the boundary and
// the limits. What the tenant stated is not changed; Allow decides on that.
func (p Policy) Complete(spec sandbox.Spec) sandbox.Spec {
	if spec.Isolation == sandbox.AnyBoundary {
		spec.Isolation = p.Isolation
	}
	l, def, most := &spec.Limits, p.DefaultLimits, p.MaxLimits
	if !p.UnboundedMemory {
		fill(&def.MemoryBytes, defaultMemory, most.MemoryBytes)
	}
	if !p.UnboundedDisk {
		fill(&def.DiskBytes, defaultDisk, most.DiskBytes)
	}
	fill(&l.MemoryBytes, def.MemoryBytes, most.MemoryBytes)
	fill(&l.CPUs, def.CPUs, most.CPUs)
	fill(&l.Processes, def.Processes, most.Processes)
	fill(&l.DiskBytes, def.DiskBytes, most.DiskBytes)
	fill(&l.DiskReadRate, def.DiskReadRate, most.DiskReadRate)
	fill(&l.DiskWriteRate, def.DiskWriteRate, most.DiskWriteRate)
	return spec
}

// fill gives a limit that is not stated the default, or the most that is allowed.
func fill[N int64 | float64](limit *N, def, most N) {
	switch {
	case *limit != 0:
	case def == 0 || most > 0 && most < def:
		*limit = most
	default:
		*limit = def
	}
}
