package monitor

import (
	"runtime"

	"aether/internal/host/guestinit"
	"aether/internal/host/kvm"
	"aether/internal/host/seccomp"
	"aether/internal/vm"
)

// confine leaves the process with the few system calls that it needs. Its jail was made by
// who started it.
func confine() error {
	// What the runtime would ask the host for from time to time is said once: a thread for
	// each processor of the guest, and one for the devices.
	runtime.GOMAXPROCS(vm.MaxCPUs + 1)
	filter, err := seccomp.OnlyRequests(seccomp.MachineCalls, kvm.Requests())
	if err != nil {
		return err
	}
	return guestinit.Filter(filter)
}
