package qemu

import (
	"fmt"
	"strings"

	"aether/driver/vmm"
	"aether/sandbox"
)

// Name is the system's canonical name.
const Name = "qemu-kvm"

// Options say where the driver works, and how.
type Options struct {
	vmm.Options
	// Emulate does without KVM also where it works.
	Emulate bool
}

const remedy = "apt install qemu-system-x86"

// New makes the driver. It does nothing until it is asked for a machine.
func New(opts Options) *vmm.Driver { return vmm.New(systemOf(opts), opts.Options) }

func systemOf(opts Options) vmm.System {
	system := vmm.System{
		// There is a program for each architecture, and machines of x86 only.
		Name: Name, Program: "qemu-system-x86_64", Remedy: remedy,
		Version: readVersion, AnyVersion: true,
		// The driver of the disk is the last: a template does without.
		Modules:    []string{"virtio_mmio", "virtio_console", "virtio_rng", "erofs", "overlay", "virtio_blk"},
		MaxCPUs:    255,
		SavedFiles: []string{"state"},
		Inherit:    arguments,
		Template:   true,
		Emulates:   vmm.EmulatesWithoutKVM,
		Monitor:    newMonitor,
	}
	if opts.Emulate {
		system.Emulates = vmm.EmulatesAlways
	}
	return system
}

// readVersion reads the first line of what QEMU says to --version.
func readVersion(said string) (string, error) {
	line, found := strings.CutPrefix(said, "QEMU emulator version ")
	version := strings.Fields(line)
	if !found || len(version) == 0 {
		return "", &sandbox.Error{Class: sandbox.Unavailable,
			Reason: fmt.Sprintf("it is no QEMU: asked for its version, it says %.60q", said), Remedy: remedy}
	}
	return version[0], nil
}
