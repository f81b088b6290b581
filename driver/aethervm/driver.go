// Package aethervm drives machines of our own monitor, aether-vmm: how it is found, what
// it is given and what it is told. Everything that machines of other monitors have as well
// is in driver/vmm; the machine itself is in internal/vm.
package aethervm

import (
	"fmt"
	"strconv"
	"strings"

	"aether/driver/vmm"
	"aether/internal/companion"
	"aether/sandbox"
)

// Name is the system's canonical name.
const Name = "aethervm"

// PathVariable names aether-vmm where it is neither beside this program nor in PATH.
const PathVariable = "AETHER_VMM"

var monitorProgram = companion.Program{Name: "aether-vmm", Variable: PathVariable, For: Name}

// Options say where the driver works.
type Options = vmm.Options

// New makes the driver. It does nothing until it is asked for a machine.
func New(opts Options) *vmm.Driver { return vmm.New(system, opts) }

const remedy = "build it with `make build`"

// words are the kernel's command line: no wait for what is not there, and little said.
const words = "console=ttyS0 quiet loglevel=3 reboot=k panic=-1 pci=off random.trust_cpu=on cryptomgr.notests nowatchdog " +
	"no_timer_check tsc=reliable 8250.nr_uarts=1 audit=0 apparmor=0 selinux=0"

var system = vmm.System{
	Name: Name, Program: monitorProgram.Name, Remedy: remedy,
	Version: readVersion, Find: monitorProgram.Find, KernelArgs: words,
	// The driver of the disk is the last: a template does without.
	Modules:    []string{"virtio_mmio", "virtio_rng", "vmw_vsock_virtio_transport", "erofs", "overlay", "virtio_blk"},
	MaxCPUs:    4,
	SavedFiles: []string{"state"},
	Inherit:    arguments,
	// The program needs little memory, of which huge pages would be mostly empty.
	Environment: []string{"GODEBUG=disablethp=1"},
	Handed:      true,
	Template:    true,
	Layered:     true,
	Monitor:     newMonitor,
}

// arguments are numbers of descriptors, and nothing of a machine.
func arguments(_ vmm.Hardware, has vmm.Descriptors) []string {
	return []string{"-control", strconv.Itoa(has[vmm.Socket]), "-guest", strconv.Itoa(has[vmm.Vsock]), "-kvm", strconv.Itoa(has[vmm.KVM])}
}

// readVersion reads what the program says it is.
func readVersion(said string) (string, error) {
	version, found := strings.CutPrefix(strings.TrimSpace(said), "aether-vmm ")
	if !found || len(version) > 40 || strings.ContainsFunc(version, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", &sandbox.Error{Class: sandbox.Unavailable, Reason: fmt.Sprintf("it is not aether-vmm: asked for its version, it says %.60q", said), Remedy: remedy}
	}
	return version, nil
}
