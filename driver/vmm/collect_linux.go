package vmm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"aether/image/disk"
	"aether/sandbox"
)

var _ sandbox.Collector = (*Driver)(nil)

// Collect implements sandbox.Collector: disks that were made of images. Snapshots have
// disks of their own.
func (d *Driver) Collect(ctx context.Context, need sandbox.Need) ([]sandbox.Collected, error) {
	dir := filepath.Join(d.opts.StateDir, "disks")
	if _, err := os.Lstat(dir); os.IsNotExist(err) {
		return nil, nil
	}
	images, err := d.opts.Images()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Info().Name, err)
	}
	needed, err := images.Stored(ctx, need.Images)
	if err != nil {
		return nil, fmt.Errorf("%s: which disks are needed is not known: %w", d.Info().Name, err)
	}
	disks, err := disk.Open(dir)
	if err != nil {
		return nil, err
	}
	return disks.Collect(needed, need.DryRun)
}
