package firecracker

import (
	"aether/driver/vmm"
)

// Name is the system's canonical name.
const Name = "firecracker"

// Options say where the driver works.
type Options = vmm.Options

// New makes the driver. It does nothing until it is asked for a machine.
func New(opts Options) *vmm.Driver { return vmm.New(system, opts) }

const remedy = "install a release of Firecracker: the programs firecracker and jailer, in PATH"

var system = vmm.System{
	Name: Name, Program: "firecracker", Remedy: remedy,
	Version: readVersion, MayPause: mayPause,
	Modules: []string{"virtio_mmio", "virtio_blk", "virtio_rng", "vmw_vsock_virtio_transport", "erofs", "overlay"},
	// Its only way to end a machine is the reset by a keyboard controller, of which
	// there is no more than that.
	KernelArgs: "console=ttyS0 quiet loglevel=3 reboot=k panic=-1 pci=off random.trust_cpu=on cryptomgr.notests nowatchdog " +
		"no_timer_check 8250.nr_uarts=1 i8042.noaux i8042.nomux i8042.dumbkbd",
	MaxCPUs:    32,
	SavedFiles: []string{stateFile, memoryFile},
	CutsOff:    true, // its vsock device is reset with each snapshot
	Arguments:  []string{"--api-sock", vmm.Socket, "--level", "Error"},
	Jail:       findJailer,
	Monitor:    newMonitor,
}
