// Package all is the table of the drivers that this build has, in the order in
// which they are preferred. It holds no driver's code.
package all

import (
	"os"
	"path/filepath"
	"sync"

	"aether/driver/aethervm"
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
	"aether/driver/vmm"
	"aether/image"
	"aether/image/kernel"
	"aether/internal/host/storedir"
	"aether/network"
	"aether/network/list"
	"aether/sandbox"
)

// cellsAhead is for programs that make many cells, as those that hold templates.
const cellsAhead = 4

// Makers is the table. Nothing is made, looked at or opened before one is asked
// for its driver.
func Makers() []sandbox.Maker {
	p := newPlaces()
	return []sandbox.Maker{
		{Name: cell.Name, New: p.cells(cellsAhead, 0), One: p.cells(0, 1)},
		{Name: bubblewrap.Name, New: func() sandbox.Driver {
			return bubblewrap.New(bubblewrap.Options{Images: p.images, RunDir: p.running("bubblewrap"), Network: p.network()})
		}},
		p.oci(oci.Crun), p.oci(oci.Runc), p.oci(oci.Youki),
		{Name: nspawn.Name, New: func() sandbox.Driver {
			return nspawn.New(nspawn.Options{Images: p.images, RunDir: p.running("nspawn"), Network: p.network()})
		}},
		{Name: lxc.Name, New: func() sandbox.Driver {
			return lxc.New(lxc.Options{Images: p.images, RunDir: p.running("lxc"), Network: p.network()})
		}},
		{Name: incus.Name, New: func() sandbox.Driver {
			return incus.New(incus.Options{Images: p.images, RunDir: p.running("incus"), Network: p.network()})
		}},
		{Name: docker.Name, New: func() sandbox.Driver {
			return docker.New(docker.Options{Runtime: os.Getenv("AETHER_DOCKER_RUNTIME"), Images: p.images, RunDir: p.running("docker"), Network: p.network()})
		}},
		{Name: gvisor.Name, New: func() sandbox.Driver {
			return gvisor.New(gvisor.Options{Images: p.images, RunDir: p.running("gvisor"), StateDir: p.lasting("gvisor"), Network: p.network()})
		}},
		{Name: containerd.Name, New: func() sandbox.Driver {
			return containerd.New(containerd.Options{Images: p.images, RunDir: p.running("containerd"), Network: p.network()})
		}},
		{Name: containerd.KataName, New: func() sandbox.Driver {
			return containerd.New(containerd.Options{Shim: containerd.KataShim, Images: p.images, RunDir: p.running("kata"), Network: p.network()})
		}},
		{Name: firecracker.Name, New: func() sandbox.Driver {
			return firecracker.New(p.machines("firecracker"))
		}},
		{Name: cloudhypervisor.Name, New: func() sandbox.Driver {
			return cloudhypervisor.New(p.machines("cloud-hypervisor"))
		}},
		{Name: aethervm.Name, New: func() sandbox.Driver {
			return aethervm.New(p.machines("aethervm"))
		}},
		{Name: qemu.Name, New: func() sandbox.Driver {
			return qemu.New(qemu.Options{Options: p.machines("qemu")})
		}},
	}
}

// Drivers makes every driver. None does anything before it is used.
func Drivers() []sandbox.Driver {
	var list []sandbox.Driver
	for _, m := range Makers() {
		list = append(list, m.New())
	}
	return list
}

func (p places) cells(ahead, threads int) func() sandbox.Driver {
	return func() sandbox.Driver {
		return cell.New(cell.Options{Images: p.images, RunDir: p.running("cell"), DiskDir: p.lasting("cells"), SnapshotDir: p.lasting("snapshots"), Ahead: ahead, Threads: threads, Network: p.network()})
	}
}

func (p places) oci(runtime oci.Runtime) sandbox.Maker {
	return sandbox.Maker{Name: string(runtime), New: func() sandbox.Driver {
		return oci.New(oci.Options{Runtime: runtime, Images: p.images, RunDir: p.running(string(runtime)), Network: p.network()})
	}}
}

// places are where the drivers of this user keep their things.
type places struct {
	state, run string
	images     func() (*image.Store, error)
	network    func() *network.Service
}

func newPlaces() places {
	p := places{state: storedir.Lasting(), run: storedir.Running()}
	p.images = sync.OnceValues(func() (*image.Store, error) { return image.Open(p.lasting("images")) })
	p.network = sync.OnceValue(func() *network.Service { return network.New(network.Options{Lists: network.Lists(p.lists())}) })
	return p
}

func (p places) running(name string) string { return filepath.Join(p.run, name) }
func (p places) lasting(name string) string { return filepath.Join(p.state, name) }

// lists are those of this host, by which policies name what may be reached.
func (p places) lists() list.Host {
	return list.Host{Dir: p.lasting("lists"), Path: os.Getenv(list.PathVariable)}
}

// machines is for the monitors of machines, whose disks are the same.
func (p places) machines(name string) vmm.Options {
	return vmm.Options{Images: p.images, Guest: guestagent.Find, StateDir: p.lasting("machines"), RunDir: p.running(name), Network: p.network(),
		Kernel: kernel.Places{Named: os.Getenv("AETHER_KERNEL"), Installed: p.lasting("kernels")}}
}
