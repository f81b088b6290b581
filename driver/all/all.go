// Package all is the table of the drivers that this build has, in the order in
// which they are preferred. It holds no driver's code.
package all

import (
	"os"
	"path/filepath"
	"sync"

	"aether/driver/bubblewrap"
	"aether/driver/cell"
	"aether/driver/cloudhypervisor"
	"aether/driver/containerd"
	"aether/driver/docker"
	"aether/driver/firecracker"
	"aether/driver/guestagent"
	"aether/driver/gvisor"
	"aether/driver/incus"
	"aether/driver/lxc"
	"aether/driver/nspawn"
	"aether/driver/oci"
	"aether/driver/qemu"
	"aether/image"
	"aether/image/kernel"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

// cellsAhead is for programs that make many cells, as those that hold templates.
const cellsAhead = 4

// Drivers makes every driver. None does anything before it is used.
func Drivers() []sandbox.Driver {
	state, run := storedir.Lasting(), storedir.Running()
	images := sync.OnceValues(func() (*image.Store, error) { return image.Open(filepath.Join(state, "images")) })
	running := func(name string) string { return filepath.Join(run, name) }
	machines := filepath.Join(state, "machines") // their disks are the same
	kernels := kernel.Places{Named: os.Getenv("AETHER_KERNEL"), Installed: filepath.Join(state, "kernels")}
	return []sandbox.Driver{
		cell.New(cell.Options{Images: images, RunDir: running("cell"), DiskDir: filepath.Join(state, "cells"), SnapshotDir: filepath.Join(state, "snapshots"), Ahead: cellsAhead}),
		bubblewrap.New(bubblewrap.Options{Images: images, RunDir: running("bubblewrap")}),
		oci.New(oci.Options{Runtime: oci.Crun, Images: images, RunDir: running("crun")}),
		oci.New(oci.Options{Runtime: oci.Runc, Images: images, RunDir: running("runc")}),
		oci.New(oci.Options{Runtime: oci.Youki, Images: images, RunDir: running("youki")}),
		nspawn.New(nspawn.Options{Images: images, RunDir: running("nspawn")}),
		lxc.New(lxc.Options{Images: images, RunDir: running("lxc")}),
		incus.New(incus.Options{Images: images, RunDir: running("incus")}),
		docker.New(docker.Options{Runtime: os.Getenv("AETHER_DOCKER_RUNTIME"), Images: images, RunDir: running("docker")}),
		gvisor.New(gvisor.Options{Images: images, RunDir: running("gvisor"), StateDir: filepath.Join(state, "gvisor")}),
		containerd.New(containerd.Options{Images: images, RunDir: running("containerd")}),
		containerd.New(containerd.Options{Shim: containerd.KataShim, Images: images, RunDir: running("kata")}),
		firecracker.New(firecracker.Options{Images: images, Guest: guestagent.Find, StateDir: machines, RunDir: running("firecracker"), Kernel: kernels}),
		cloudhypervisor.New(cloudhypervisor.Options{Images: images, Guest: guestagent.Find, StateDir: machines, RunDir: running("cloud-hypervisor"), Kernel: kernels}),
		qemu.New(qemu.Options{Images: images, Guest: guestagent.Find, StateDir: machines, RunDir: running("qemu"), Kernel: kernels}),
	}
}
