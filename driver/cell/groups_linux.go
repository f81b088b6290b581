package cell

import (
	"context"
	"sync"

	"aether/internal/host/cgroup"
)

// groups makes the cgroups of this program's cells.
type groups struct {
	hierarchy *cgroup.Hierarchy
	owner     *cgroup.Owner

	once sync.Once
	init cgroup.Way // into the group of PID 1s
	err  error
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
	group, err := g.owner.Claim("cell-" + newID())
	if err != nil {
		return nil, cgroup.Way{}, err
	}
	return group, group.Way(), nil
}

// waiting is the way into the group of those who only wait. It has no limits and is never
// used for anything else.
func (g *groups) waiting() (cgroup.Way, error) {
	g.once.Do(func() {
		group, err := g.owner.Create("init")
		if g.err = err; err == nil {
			g.init = group.Way()
		}
	})
	return g.init, g.err
}

func (g *groups) close(ctx context.Context) error {
	if g == nil {
		return nil
	}
	return g.owner.Close(ctx)
}
