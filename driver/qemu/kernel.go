package qemu

import (
	"context"

	"aether/image/kernel"
)

// InstallKernel fetches a kernel for machines, if there is none yet.
func (d *Driver) InstallKernel(ctx context.Context) (kernel.Kernel, error) {
	return kernel.Install(ctx, d.opts.Kernel.Installed)
}
