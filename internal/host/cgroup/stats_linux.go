package cgroup

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"aether/sandbox"
)

// Stats says what the group uses now and has used. What no controller of this
// host counts is absent. Errors: NotFound once removed.
func (g *Group) Stats() (sandbox.Stats, error) {
	if err := g.alive("stats"); err != nil {
		return sandbox.Stats{}, err
	}
	memory, err1 := g.figure(Memory, "memory.usage_in_bytes", "memory.current")
	peak, err2 := g.figure(Memory, "memory.max_usage_in_bytes", "memory.peak")
	processes, err3 := g.processes()
	used, err4 := g.cpuTime()
	return g.before.own(sandbox.Stats{MemoryBytes: memory, MemoryPeakBytes: peak, Processes: processes, CPUTime: used}, !g.unified(Memory)),
		g.wrap("stats", errors.Join(err1, err2, err3, err4))
}

// processes counts threads too where the pids controller does it.
func (g *Group) processes() (*int64, error) {
	if _, ok := g.with(Pids); ok {
		return g.figure(Pids, "pids.current", "pids.current")
	}
	count, err := g.controlNode().population()
	return &count, err
}

// population is the number of processes in the group and those below it.
func (n node) population() (int64, error) {
	list, err := n.processes()
	if err != nil {
		return 0, err
	}
	below, err := n.children()
	count := int64(len(list))
	for _, child := range below {
		more, failed := child.population()
		count, err = count+more, errors.Join(err, absent(failed))
	}
	return count, err
}

func (g *Group) alive(verb string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.gone {
		return nil
	}
	return &sandbox.Error{Class: sandbox.NotFound, Op: "cgroup: " + verb + " " + g.name, Reason: "the group was removed"}
}

// figure reads a number from the file of the version that has the controller;
// an old kernel may lack the file.
func (g *Group) figure(c Controller, legacy, unified string) (*int64, error) {
	n, ok := g.with(c)
	if !ok {
		return nil, nil
	}
	file := legacy
	if g.unified(c) {
		file = unified
	}
	text, err := n.read(file)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	value, ok := number(text)
	if err != nil || !ok {
		return nil, errors.Join(err, malformed(file, ok))
	}
	return &value, nil
}

func malformed(file string, ok bool) error {
	if ok {
		return nil
	}
	return errors.New(file + " holds no number")
}

// cpuTime is counted by version 2 whether or not it has the cpu controller.
func (g *Group) cpuTime() (*time.Duration, error) {
	if at, ok := g.owner.control(); ok && g.owner.host.trees[at].unified {
		text, err := g.controlNode().read("cpu.stat")
		used, ok := counter(text, "usage_usec")
		if err != nil || !ok {
			return nil, errors.Join(err, malformed("cpu.stat", ok))
		}
		d := time.Duration(used) * time.Microsecond
		return &d, nil
	}
	used, err := g.figure(account, "cpuacct.usage", "")
	return (*time.Duration)(used), err
}

// Events count what the limits of a group have stopped.
type Events struct {
	OOMKills   int64 // processes killed because memory was used up
	PidsDenied int64 // times that a new process or thread was refused
}

// Events reads the counters since the group was made; those of controllers that
// this host lacks are zero, as are their limits. Errors: NotFound once removed.
func (g *Group) Events() (Events, error) {
	if err := g.alive("events"); err != nil {
		return Events{}, err
	}
	kills, err1 := g.event(Memory, "memory.oom_control", "memory.events", "oom_kill")
	denied, err2 := g.event(Pids, "pids.events", "pids.events", "max")
	before := g.before.events
	return Events{OOMKills: kills - before.OOMKills, PidsDenied: denied - before.PidsDenied}, g.wrap("events", errors.Join(err1, err2))
}

// OutOfMemory says whether the group's limit on memory has killed anybody; the
// answer of no group, nil, and of one that is gone is no.
func (g *Group) OutOfMemory() bool {
	if g == nil {
		return false
	}
	events, err := g.Events()
	return err == nil && events.OOMKills > 0
}

// OOMKills is that part of Events alone.
func (g *Group) OOMKills() (int64, error) {
	kills, err := g.event(Memory, "memory.oom_control", "memory.events", "oom_kill")
	return kills - g.before.events.OOMKills, g.wrap("events", err)
}

func (g *Group) event(c Controller, legacy, unified, key string) (int64, error) {
	n, ok := g.with(c)
	if !ok {
		return 0, nil
	}
	file := legacy
	if g.unified(c) {
		file = unified
	}
	text, err := n.read(file)
	count, _ := counter(text, key)
	return count, err
}
