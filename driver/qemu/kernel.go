package qemu

import (
	"context"

	"aether/image/kernel"
)

var _ kernel.Installer = (*Driver)(nil)

// InstallKernel implements kernel.Installer.
func (d *Driver) InstallKernel(ctx context.Context) (kernel.Kernel, error) {
	return kernel.Install(ctx, d.opts.Kernel.Installed)
}
