package command

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"aether/driver/guestagent"
	"aether/driver/lifetime"
	"aether/internal/host/cgroup"
	"aether/internal/host/sysinfo"
	"aether/sandbox"
)

const maxPids = 4 << 20

// groups limits and counts the sandboxes of one driver by cgroups, where this
// user may have any.
type groups struct {
	hierarchy *cgroup.Hierarchy
	owner     *cgroup.Owner
	// unlimited is why there are none, or nil.
	unlimited error
	count     atomic.Uint64
}

// openGroups makes the parent of a driver's groups and removes what programs that
// were killed left in runDir. close must follow.
func openGroups(ctx context.Context, runDir string) (*groups, error) {
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
	return &groups{hierarchy: hierarchy, owner: owner, unlimited: err}, nil
}

// accepts refuses limits that cannot be held. Errors: Unavailable.
func (g *groups) accepts(l sandbox.Limits) error {
	limits := limitsOf(l)
	if limits.Memory > 0 && limits.Memory < guestagent.MinMemory {
		return &sandbox.Error{Class: sandbox.Unsupported, Field: "limits.memory",
			Reason: fmt.Sprintf("%d bytes is less than the %d that the service inside the sandbox needs", limits.Memory, guestagent.MinMemory)}
	}
	if g.unlimited != nil && limits != (cgroup.Limits{}) {
		return &sandbox.Error{Class: sandbox.Unavailable, Field: "limits", Err: g.unlimited}
	}
	return g.hierarchy.Enforces(limits)
}

func limitsOf(l sandbox.Limits) cgroup.Limits {
	return cgroup.Limits{Memory: l.MemoryBytes, CPUs: l.CPUs, Pids: l.Processes}
}

// make makes a group with every limit but that on memory, and opens the way into
// it; nil where there are none. limit follows once the sandbox's first program
// has been executed: until then its process may share this program's memory.
func (g *groups) make(l sandbox.Limits) (*cgroup.Group, cgroup.Attach, error) {
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
		return nil, attach, errors.Join(err, remove(group))
	}
	return group, attach, nil
}

// limit sets all limits, also that on memory.
func (g *groups) limit(group *cgroup.Group, l sandbox.Limits) error {
	if group == nil {
		return nil
	}
	return group.Set(g.limits(l))
}

// limits is what the caller asked for, and defaults where they can be held.
func (g *groups) limits(l sandbox.Limits) cgroup.Limits {
	limits := limitsOf(l)
	if limits.Memory == 0 && g.hierarchy.Holds()&cgroup.Memory != 0 {
		limits.Memory = sysinfo.HalfOfMemory()
	}
	if limits.Pids == 0 && g.hierarchy.Holds()&cgroup.Pids != 0 {
		limits.Pids = guestagent.DefaultProcesses
	}
	if limits.Pids > 0 {
		limits.Pids = min(limits.Pids+guestagent.Overhead, maxPids)
	}
	return limits
}

// stats is what a group uses, and how often it ran into its limits.
func (g *groups) stats(group *cgroup.Group, l sandbox.Limits) (stats sandbox.Stats, err error) {
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

// remove gives a group back, within a time of its own; nil is fine.
func remove(group *cgroup.Group) error {
	if group == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lifetime.CleanupTime)
	defer cancel()
	return group.Remove(ctx)
}

// close removes the parent and what is left below it.
func (g *groups) close(ctx context.Context) error {
	if g.owner == nil {
		return nil
	}
	return g.owner.Close(ctx)
}
