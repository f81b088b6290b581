package cgroup

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"aether/sandbox"
)

// Set gives the group these limits in place of those it has. It writes only
// what changes, so that a fresh group costs one write for each limit. Errors:
// Invalid, Unavailable for a limit that this host cannot hold, Exhausted for
// more than the groups around this one allow.
func (g *Group) Set(l Limits) error {
	if err := g.owner.host.Enforces(l); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.growFor(l.needs()); err != nil {
		return err
	}
	if l.Memory != g.applied.Memory {
		if err := g.setMemory(l.Memory); err != nil {
			return g.refused("limits.memory", err)
		}
		g.applied.Memory = l.Memory
	}
	if l.Pids != g.applied.Pids {
		if err := g.set(Pids, "pids.max", "pids.max", l.Pids); err != nil {
			return g.refused("limits.processes", err)
		}
		g.applied.Pids = l.Pids
	}
	if l.CPUs != g.applied.CPUs {
		if err := g.set(CPU, "cpu.cfs_quota_us", "cpu.max", l.quota()); err != nil {
			return g.refused("limits.cpus", err)
		}
		g.applied.CPUs = l.CPUs
	}
	return nil
}

// growFor makes the directories that controllers need and the group lacks. What
// is in the group stays out of them; what enters later is in.
func (g *Group) growFor(needed Controller) error {
	for i, t := range g.owner.host.trees {
		if t.holds&needed == 0 || g.nodes[i].name != "" {
			continue
		}
		if err := errors.Join(g.grow(i), g.closeAttach()); err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) refused(field string, err error) error {
	e := &sandbox.Error{Op: "cgroup: set " + g.name, Field: field, Err: err}
	switch {
	case errors.Is(err, unix.EINVAL):
		e.Class, e.Reason = sandbox.Exhausted, "the groups around this one allow less"
	case errors.Is(err, unix.EBUSY):
		e.Class, e.Reason, e.Retry = sandbox.Conflict, "more is in use than the new limit", true
	case errors.Is(err, unix.ENOENT):
		e.Class, e.Reason = sandbox.NotFound, "the group does not exist any more"
	}
	return e
}

// set writes a limit to the file of the version that has the controller; zero
// lifts it.
func (g *Group) set(c Controller, legacy, unified string, value int64) error {
	n, _ := g.with(c)
	file, unlimited := unified, "max"
	if !g.unified(c) {
		file = legacy
		if c != Pids {
			unlimited = "-1"
		}
	}
	if value == 0 {
		return n.write(file, []byte(unlimited))
	}
	var buf [20]byte
	return n.write(file, strconv.AppendInt(buf[:0], value, 10))
}

// setMemory bounds memory with swap. Version 1 keeps the sum at or above the
// part, so a limit that is raised goes to the sum first.
func (g *Group) setMemory(limit int64) error {
	if g.unified(Memory) {
		if err := g.set(Memory, "", "memory.max", limit); err != nil {
			return err
		}
		n, _ := g.with(Memory)
		return absent(n.write("memory.swap.max", zero))
	}
	files := []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
	if g.applied.Memory != 0 && (limit == 0 || limit > g.applied.Memory) {
		files[0], files[1] = files[1], files[0]
	}
	for _, file := range files {
		err := g.set(Memory, file, "", limit)
		if err != nil && !(file == "memory.memsw.limit_in_bytes" && errors.Is(err, unix.ENOENT)) {
			return err
		}
	}
	return absent(g.set(Memory, socketLimit, "", limit/socketShare))
}

// Version 1 counts the buffers of TCP and UDP sockets apart from all other memory,
// and only in groups that have a limit of their own for it.
const (
	socketLimit = "memory.kmem.tcp.limit_in_bytes"
	socketShare = 8 // of the memory limit, which this comes on top of
)

// unified says whether version 2 holds the controller.
func (g *Group) unified(c Controller) bool {
	for _, t := range g.owner.host.trees {
		if t.holds&c != 0 {
			return t.unified
		}
	}
	return false
}
