package cgroup

import "aether/sandbox"

// Rates bound how many bytes a second a group reads from and writes to each disk. A
// zero field is no bound.
type Rates struct{ Read, Write int64 }

const (
	readField  = "limits.disk_read_rate"
	writeField = "limits.disk_write_rate"
)

func (r Rates) validate() error {
	switch {
	case r.Read < 0 || r.Read > 0 && r.Read < sandbox.MinDiskRate:
		return sandbox.Invalidf(readField, "%d bytes a second is less than the least limit, %d", r.Read, sandbox.MinDiskRate)
	case r.Write < 0 || r.Write > 0 && r.Write < sandbox.MinDiskRate:
		return sandbox.Invalidf(writeField, "%d bytes a second is less than the least limit, %d", r.Write, sandbox.MinDiskRate)
	}
	return nil
}

// field is the one to name where neither can be held.
func (r Rates) field() string {
	if r.Read > 0 {
		return readField
	}
	return writeField
}

const remedyUnified = "boot with version 2 of control groups alone: systemd.unified_cgroup_hierarchy=1, or cgroup_no_v1=all"

// EnforcesRates is nil if the rates that are set can be held here, on disks that
// attribute what is done to them. Errors: Invalid; Unavailable, with the field.
func (h *Hierarchy) EnforcesRates(r Rates) error {
	if err := r.validate(); err != nil || r == (Rates{}) {
		return err
	}
	if err := h.Missing(IO); err != nil {
		return inField(err, r.field())
	}
	if r.Write == 0 {
		return nil
	}
	// What a process writes mostly reaches the disk later, by threads of the kernel.
	// Only version 2 knows whose it was, and only by whose memory it is in.
	if !h.holdsTogether(IO | Memory) {
		return &sandbox.Error{Class: sandbox.Unavailable, Op: "cgroup", Field: writeField, Remedy: remedyUnified,
			Reason: "most writes reach a disk later, and whose they were is known only in groups of version 2 with the memory and io controllers"}
	}
	return nil
}

// holdsTogether says whether one tree of version 2 holds all controllers of a set.
func (h *Hierarchy) holdsTogether(set Controller) bool {
	for _, t := range h.trees {
		if t.unified && t.holds&set == set {
			return true
		}
	}
	return false
}

// inField is the error with another field, if it has one.
func inField(err error, field string) error {
	if e, ok := err.(*sandbox.Error); ok {
		named := *e
		named.Field = field
		return &named
	}
	return err
}
