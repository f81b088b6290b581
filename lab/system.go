package lab

import "aether/sandbox"

// System is an isolation system that is measured. Whatever has a driver can be one.
type System struct {
	Name   string
	Driver sandbox.Driver
	// New makes one more driver of the system, for an engine that closes it. Nil has the
	// system not be measured through an engine.
	New func() sandbox.Driver
}
