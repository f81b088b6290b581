//go:build !linux

package incus

import (
	"context"

	"aether/sandbox"
)

type engine struct{}

// Probe implements sandbox.Driver.
func (d *Driver) Probe(context.Context) sandbox.Report {
	return sandbox.Report{Reason: "Incus makes containers on Linux only", Remedy: "use a Linux host or virtual machine"}
}

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, _ sandbox.Spec) (sandbox.Instance, error) {
	return nil, d.Probe(ctx).Err(Name)
}
