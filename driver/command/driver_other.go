//go:build !linux

package command

import (
	"context"

	"aether/sandbox"
)

type engine struct{}

// Probe implements sandbox.Driver.
func (d *Driver) Probe(context.Context) sandbox.Report {
	return sandbox.Report{Reason: d.system.Name + " is made of Linux namespaces", Remedy: "use a Linux host or virtual machine"}
}

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, _ sandbox.Spec) (sandbox.Instance, error) {
	return nil, d.Probe(ctx).Err(d.system.Name)
}
