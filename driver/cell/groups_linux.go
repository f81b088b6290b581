package cell

import (
	"context"
	"fmt"
	"sync/atomic"

	"aether/internal/host/cgroup"
)

// groups makes the cgroups of this program's cells.
type groups struct {
	hierarchy *cgroup.Hierarchy
	owner     *cgroup.Owner
	count     atomic.Uint64
}

func newGroups(runDir string) (*groups, error) {
	hierarchy, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	owner, err := hierarchy.Own(runDir)
	if err != nil {
		return nil, err
	}
	return &groups{hierarchy: hierarchy, owner: owner}, nil
}

// make makes a group without limits, and gives the way into it.
func (g *groups) make() (*cgroup.Group, cgroup.Way, error) {
	if g == nil {
		return nil, cgroup.Way{}, nil
	}
	group, err := g.owner.Claim(fmt.Sprintf("cell-%d", g.count.Add(1)))
	if err != nil {
		return nil, cgroup.Way{}, err
	}
	return group, group.Way(), nil
}

func (g *groups) close(ctx context.Context) error {
	if g == nil {
		return nil
	}
	return g.owner.Close(ctx)
}
