// Package all is the table of the drivers that this build has, in the order in
// which they are preferred. It holds no driver's code.
package all

import (
	"os"
	"path/filepath"
	"sync"

	"aether/driver/bubblewrap"
	"aether/driver/cell"
	"aether/driver/qemu"
	"aether/guest/inside"
	"aether/host/statedir"
	"aether/image"
	"aether/image/kernel"
	"aether/sandbox"
)

// Drivers makes every driver. None does anything before it is used.
func Drivers() []sandbox.Driver {
	state, run := statedir.Lasting(), statedir.Running()
	images := sync.OnceValues(func() (*image.Store, error) { return image.Open(filepath.Join(state, "images")) })
	return []sandbox.Driver{
		cell.New(cell.Options{Images: images, RunDir: filepath.Join(run, "cell"), DiskDir: filepath.Join(state, "cells"), SnapshotDir: filepath.Join(state, "snapshots")}),
		bubblewrap.New(bubblewrap.Options{Images: images, RunDir: filepath.Join(run, "bubblewrap")}),
		qemu.New(qemu.Options{Images: images, Guest: inside.Find, StateDir: filepath.Join(state, "machines"), RunDir: filepath.Join(run, "qemu"),
			Kernel: kernel.Places{Named: os.Getenv("AETHER_KERNEL"), Installed: filepath.Join(state, "kernels")}}),
	}
}
