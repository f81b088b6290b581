package cell

import (
	"errors"

	"aether/internal/host/blockdev"
	"aether/internal/host/cgroup"
	"aether/sandbox"
)

func ratesOf(l sandbox.Limits) cgroup.Rates {
	return cgroup.Rates{Read: l.DiskReadRate, Write: l.DiskWriteRate}
}

// limitRates holds the cell to its rates on every disk that it can reach. Which those
// are is known once it is booted: a bounded disk of its own is one of them.
func (i *instance) limitRates() error {
	rates := ratesOf(i.spec.Limits)
	if rates == (cgroup.Rates{}) {
		return nil
	}
	systems, err := i.cell.FileSystems()
	if err != nil {
		return err
	}
	disks, err := blockdev.Disks(systems, rates.Write > 0)
	if err != nil {
		return ofRates(err, rates)
	}
	group, err := i.occupy()
	if err != nil {
		return err
	}
	return group.SetRates(rates, disks)
}

// ofRates names the limit that a file system cannot be held to.
func ofRates(err error, rates cgroup.Rates) error {
	var e *sandbox.Error
	if !errors.As(err, &e) {
		return err
	}
	named := *e
	named.Field = "limits.disk_read_rate"
	if rates.Read == 0 {
		named.Field = "limits.disk_write_rate"
	}
	return &named
}

// rateGaps says which rates this user cannot have on this host.
func rateGaps() []sandbox.Gap {
	hierarchy, err := cgroup.Detect()
	if err != nil {
		return nil // said of all limits: see guestagent.LimitGaps
	}
	var e *sandbox.Error
	switch {
	case errors.As(hierarchy.EnforcesRates(cgroup.Rates{Read: sandbox.MinDiskRate}), &e):
		return []sandbox.Gap{{Missing: "cgroup controller io", Cost: "limits on how fast disks are read and written are refused", Remedy: e.Remedy}}
	case errors.As(hierarchy.EnforcesRates(cgroup.Rates{Write: sandbox.MinDiskRate}), &e):
		return []sandbox.Gap{{Missing: "cgroup controllers io and memory of version 2", Cost: "limits on how fast disks are written are refused", Remedy: e.Remedy}}
	}
	return nil
}
