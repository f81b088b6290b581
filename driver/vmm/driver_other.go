//go:build !linux

package vmm

import (
	"context"

	"aether/sandbox"
)

type engine struct{}

// emulated is not known of a host that runs no machines.
func (System) emulated() bool { return false }

// Probe implements sandbox.Driver.
func (d *Driver) Probe(context.Context) sandbox.Report {
	return sandbox.Report{Reason: d.system.Name + " runs on Linux hosts only", Remedy: "use a Linux host or virtual machine"}
}

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, _ sandbox.Spec) (sandbox.Instance, error) {
	return nil, d.Probe(ctx).Err(d.system.Name)
}
