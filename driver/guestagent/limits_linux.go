package guestagent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

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

	maxPids = 4 << 20
)

// Groups limits and counts the sandboxes of one driver by cgroups, where this
// user may have any.
type Groups struct {
	hierarchy *cgroup.Hierarchy
	owner     *cgroup.Owner
	// unlimited is why there are none, or nil.
	unlimited error
	count     atomic.Uint64
}

// OpenGroups makes the parent of a driver's groups and removes what programs that
// were killed left in runDir. Close must follow.
func OpenGroups(ctx context.Context, runDir string) (*Groups, error) {
	if _, err := cgroup.Reap(ctx, runDir); err != nil {
		return nil, err
	}
	hierarchy, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	owner, err := hierarchy.Own(runDir)
	if err != nil && sandbox.ClassOf(err) != sandbox.Unavailable {
		return nil, err
	}
	return &Groups{hierarchy: hierarchy, owner: owner, unlimited: err}, nil
}

// Unlimited is why this user has no groups here, or nil.
func (g *Groups) Unlimited() error { return g.unlimited }

// Accepts refuses limits that cannot be held. Errors: Unavailable.
func (g *Groups) Accepts(l sandbox.Limits) error {
	limits := limitsOf(l)
	if limits.Memory > 0 && limits.Memory < MinMemory {
		return &sandbox.Error{Class: sandbox.Unsupported, Field: "limits.memory",
			Reason: fmt.Sprintf("%d bytes is less than the %d that the service inside the sandbox needs", limits.Memory, MinMemory)}
	}
	if g.unlimited != nil && limits != (cgroup.Limits{}) {
		return &sandbox.Error{Class: sandbox.Unavailable, Field: "limits", Err: g.unlimited}
	}
	return g.hierarchy.Enforces(limits)
}

func limitsOf(l sandbox.Limits) cgroup.Limits {
	return cgroup.Limits{Memory: l.MemoryBytes, CPUs: l.CPUs, Pids: l.Processes}
}

// Make makes a group with every limit but that on memory, and opens the way into
// it; nil where there are none. Limit follows once the sandbox's first program
// has been executed: until then its process may share this program's memory.
func (g *Groups) Make(l sandbox.Limits) (*cgroup.Group, cgroup.Attach, error) {
	if g.unlimited != nil {
		return nil, cgroup.Attach{Into: -1}, nil
	}
	group, err := g.owner.Create(fmt.Sprintf("box-%d", g.count.Add(1)))
	if err != nil {
		return nil, cgroup.Attach{}, err
	}
	limits := g.limits(l)
	limits.Memory = 0
	var attach cgroup.Attach
	if err = group.Set(limits); err == nil {
		attach, err = group.Attach(true)
	}
	if err != nil {
		return nil, attach, errors.Join(err, Remove(group))
	}
	return group, attach, nil
}

// Limit sets all limits, also that on memory.
func (g *Groups) Limit(group *cgroup.Group, l sandbox.Limits) error {
	if group == nil {
		return nil
	}
	return group.Set(g.limits(l))
}

// limits is what the caller asked for, and defaults where they can be held.
func (g *Groups) limits(l sandbox.Limits) cgroup.Limits {
	limits := limitsOf(l)
	if limits.Memory == 0 && g.hierarchy.Holds()&cgroup.Memory != 0 {
		limits.Memory = defaultMemory()
	}
	if limits.Pids == 0 && g.hierarchy.Holds()&cgroup.Pids != 0 {
		limits.Pids = DefaultProcesses
	}
	if limits.Pids > 0 {
		limits.Pids = min(limits.Pids+Overhead, maxPids)
	}
	return limits
}

// defaultMemory is half of the host's: enough for any honest command, and the
// host outlives a hostile one.
func defaultMemory() int64 {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit) / 2
}

// Stats is what a group uses, and how often it ran into its limits.
func (g *Groups) Stats(group *cgroup.Group, l sandbox.Limits) (stats sandbox.Stats, err error) {
	if group == nil {
		return stats, nil
	}
	if stats, err = group.Stats(); err != nil {
		return stats, err
	}
	events, err := group.Events()
	if err != nil {
		return stats, err
	}
	stats.OOMKills = &events.OOMKills
	if l.Processes > 0 {
		stats.ForksDenied = &events.PidsDenied
	}
	return stats, nil
}

// OutOfMemory says whether the group's limit on memory has killed anybody.
func OutOfMemory(group *cgroup.Group) bool {
	if group == nil {
		return false
	}
	events, err := group.Events()
	return err == nil && events.OOMKills > 0
}

// Remove gives a group back, within a time of its own; nil is fine.
func Remove(group *cgroup.Group) error {
	if group == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), CleanupTime)
	defer cancel()
	return group.Remove(ctx)
}

// Close removes the parent and what is left below it.
func (g *Groups) Close(ctx context.Context) error {
	if g.owner == nil {
		return nil
	}
	return g.owner.Close(ctx)
}

// LimitGaps says which limits this user cannot have on this host.
func LimitGaps() []sandbox.Gap {
	hierarchy, err := cgroup.Detect()
	if err != nil {
		return []sandbox.Gap{{Missing: "cgroups: " + err.Error(), Cost: "limits on memory, CPU and processes are refused"}}
	}
	var gaps []sandbox.Gap
	for _, c := range []struct {
		controller cgroup.Controller
		cost       string
	}{
		{cgroup.Memory, "memory limits are refused, and none is set by default"},
		{cgroup.CPU, "CPU limits are refused"},
		{cgroup.Pids, "limits on processes are refused, and none is set by default"},
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
