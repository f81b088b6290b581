package cloudhypervisor

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"aether/driver/vmm"
	"aether/sandbox"
)

// Name is the system's canonical name.
const Name = "cloud-hypervisor"

// Options say where the driver works.
type Options = vmm.Options

// New makes the driver. It does nothing until it is asked for a machine.
func New(opts Options) *vmm.Driver { return vmm.New(system, opts) }

const remedy = "install a release of Cloud Hypervisor: the program cloud-hypervisor, in PATH"

var system = vmm.System{
	Name: Name, Program: "cloud-hypervisor", Remedy: remedy,
	Version: readVersion,
	Modules: []string{"virtio_pci", "virtio_blk", "virtio_rng", "vmw_vsock_virtio_transport", "erofs", "overlay"},
	KernelArgs: "console=ttyS0 quiet loglevel=3 reboot=k panic=-1 random.trust_cpu=on cryptomgr.notests nowatchdog " +
		"no_timer_check 8250.nr_uarts=1",
	MaxCPUs:    254,
	SavedFiles: []string{"config.json", "state.json", "memory-ranges"},
	Arguments:  []string{"--api-socket", "path=" + vmm.Socket},
	Monitor:    newMonitor,
}

// oldest is the release from which on the parts of the API that are used have not
// changed.
const oldest = 30

var versionLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^cloud-hypervisor v((\d{1,4})\.\d{1,4}(?:\.\d{1,4})?)`)
})

// readVersion reads the line that cloud-hypervisor --version says.
func readVersion(said string) (string, error) {
	parts := versionLine().FindStringSubmatch(said)
	if parts == nil {
		return "", &sandbox.Error{Class: sandbox.Unavailable,
			Reason: fmt.Sprintf("it is not Cloud Hypervisor: asked for its version, it says %.60q", said), Remedy: remedy}
	}
	if major, err := strconv.Atoi(parts[2]); err != nil || major < oldest {
		return "", &sandbox.Error{Class: sandbox.Unavailable, Reason: "Cloud Hypervisor " + parts[1] + " is too old",
			Remedy: fmt.Sprintf("install release %d or newer", oldest)}
	}
	return parts[1], nil
}
