package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"aether/host/cgroup"
	"aether/sandbox"
)

const removalTime = 20 * time.Second

// groups makes the cgroups of cells. It is nil where this user can have none.
type groups struct {
	owner *cgroup.Owner
	count atomic.Uint64
}

func newGroups(dir string) (*groups, error) {
	hierarchy, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	owner, err := hierarchy.Own(dir)
	if sandbox.ClassOf(err) == sandbox.Unavailable {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &groups{owner: owner}, nil
}

func (g *groups) make() (*cgroup.Group, cgroup.Attach, error) {
	if g == nil {
		return nil, cgroup.Attach{Into: -1}, nil
	}
	group, err := g.owner.Create(fmt.Sprintf("cell-%d", g.count.Add(1)))
	if err != nil {
		return nil, cgroup.Attach{}, err
	}
	attach, err := group.Attach(true)
	return group, attach, err
}

func remove(group *cgroup.Group) error {
	if group == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), removalTime)
	defer cancel()
	return group.Remove(ctx)
}

func (g *groups) close() error {
	if g == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), removalTime)
	defer cancel()
	return g.owner.Close(ctx)
}
