package isolation

import "slices"

// Group is a kind of probes.
type Group string

// Groups, in the order of the table.
const (
	Kernel       Group = "kernel"
	SystemCalls  Group = "system calls"
	Capabilities Group = "capabilities"
	Namespaces   Group = "namespaces"
	Privileges   Group = "privileges"
	Interfaces   Group = "kernel interfaces"
	Devices      Group = "devices"
	Visibility   Group = "visibility"
	Network      Group = "network"
	Resources    Group = "resources"
)

// Counts says where what a probe finds is a finding about the host.
type Counts string

const (
	// Always: it is the host's whatever kernel answers.
	Always Counts = "always"
	// OnHostKernel: a kernel of the sandbox's own may be used and broken as it likes.
	OnHostKernel Counts = "host's kernel"
	// OfHostUsers: nor does it reach anything from a user namespace of the sandbox's own.
	OfHostUsers Counts = "host's users"
)

// Probe is a row of the table.
type Probe struct {
	Name   string  `json:"name"`
	Group  Group   `json:"group"`
	Weight float64 `json:"weight"`
	Counts Counts  `json:"counts"`
	// Asks is what is tried, and why it matters; Safe is the answer that is expected.
	Asks string `json:"asks"`
	Safe string `json:"safe"`

	judge judgment
}

// Probes is the table of all probes.
func Probes() []Probe { return slices.Clone(table) }

// table is in the order of the groups. Rows without a weight decide the class.
var table = slices.Concat(kernelRows, callRows, capabilityRows, namespaceRows, privilegeRows, interfaceRows, deviceRows, visibilityRows, networkRows, resourceRows)
