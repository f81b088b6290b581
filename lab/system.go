package lab

import "aether/sandbox"

// System is an isolation system that is measured. Whatever has a driver can be one.
type System struct {
	Name   string
	Driver sandbox.Driver
}
