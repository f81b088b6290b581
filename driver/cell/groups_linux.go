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

// make makes a group without limits, with the way into it open.
func (g *groups) make() (*cgroup.Group, cgroup.Attach, error) {
	if g == nil {
		return nil, cgroup.Attach{Into: -1}, nil
	}
	group, err := g.owner.Create(fmt.Sprintf("cell-%d", g.count.Add(1)))
	if err != nil {
		return nil, cgroup.Attach{}, err
	}
	attach, err := group.Attach(true)
	if err != nil {
		return nil, attach, joinRemoval(context.Background(), group, err)
	}
	return group, attach, nil
}

func (g *groups) close(ctx context.Context) error {
	if g == nil {
		return nil
	}
	return g.owner.Close(ctx)
}
