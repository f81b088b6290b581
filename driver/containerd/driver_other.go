//go:build !linux

package containerd

import (
	"context"

	"aether/sandbox"
)

type engine struct{}

// Probe implements sandbox.Driver.
func (d *Driver) Probe(context.Context) sandbox.Report {
	return sandbox.Report{Reason: "containerd runs Linux containers on Linux only", Remedy: "use a Linux host or virtual machine"}
}

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, _ sandbox.Spec) (sandbox.Instance, error) {
	return nil, d.Probe(ctx).Err(d.opts.name())
}
