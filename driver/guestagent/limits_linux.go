package guestagent

import (
	"errors"

	"aether/internal/host/cgroup"
	"aether/sandbox"
)

const (
	// DefaultProcesses bounds the processes of a sandbox that states no bound.
	DefaultProcesses = 4096
	// Overhead is how many processes and threads are set aside for the guest
	// service and the driver's own, on top of what the caller may have: a service
	// that could start no thread would end, and its sandbox with it.
	Overhead = 32
	// MinMemory is what the guest service needs of a limit on memory.
	MinMemory = 24 << 20
)

// ProcessesRefused is what it costs most drivers that processes cannot be counted.
const ProcessesRefused = "limits on processes are refused, and none is set by default"

// RefusesRates refuses rates of disks, which the driver of a system cannot hold.
// Errors: Unsupported, with the field.
func RefusesRates(system string, l sandbox.Limits) error {
	for _, rate := range []struct {
		field string
		asked int64
	}{{"limits.disk_read_rate", l.DiskReadRate}, {"limits.disk_write_rate", l.DiskWriteRate}} {
		if rate.asked > 0 {
			return &sandbox.Error{Class: sandbox.Unsupported, Field: rate.field,
				Reason: "the driver " + system + " does not bound how fast disks are read and written",
				Remedy: "leave it unset, or use the driver cell"}
		}
	}
	return nil
}

// LimitGaps says which limits this user cannot have on this host. What it costs that
// processes cannot be counted is the driver's to say.
func LimitGaps(uncounted string) []sandbox.Gap {
	hierarchy, err := cgroup.Detect()
	if err != nil {
		return []sandbox.Gap{{Missing: "cgroups: " + err.Error(), Cost: "limits on memory and CPU are refused; " + uncounted}}
	}
	var gaps []sandbox.Gap
	for _, c := range []struct {
		controller cgroup.Controller
		cost       string
	}{
		{cgroup.Memory, "memory limits are refused, and none is set by default"},
		{cgroup.CPU, "CPU limits are refused"},
		{cgroup.Pids, uncounted},
	} {
		if hierarchy.Holds()&c.controller != 0 {
			continue
		}
		gap := sandbox.Gap{Missing: "cgroup controller " + c.controller.String(), Cost: c.cost}
		var e *sandbox.Error
		if errors.As(hierarchy.Missing(c.controller), &e) {
			gap.Remedy = e.Remedy
		}
		gaps = append(gaps, gap)
	}
	return gaps
}
