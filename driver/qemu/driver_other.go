//go:build !linux

package qemu

import (
	"context"

	"aether/sandbox"
)

type engine struct{}

// Info implements sandbox.Driver.
func (d *Driver) Info() sandbox.Info {
	return sandbox.Info{Name: Name, Boundary: sandbox.HardwareBoundary, Verbs: verbs}
}

// Probe implements sandbox.Driver.
func (d *Driver) Probe(context.Context) sandbox.Report {
	return sandbox.Report{Reason: "QEMU is driven on Linux hosts only", Remedy: "use a Linux host or virtual machine"}
}

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, _ sandbox.Spec) (sandbox.Instance, error) {
	return nil, d.Probe(ctx).Err(Name)
}
