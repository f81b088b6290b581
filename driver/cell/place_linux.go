package cell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"aether/internal/host/cgroup"
	"aether/internal/host/confine"
	"aether/sandbox"
)

// A cell in which nothing ever ran has no use of control groups and of a net namespace, and
// of all that it is made of those cost most: the kernel keeps a counter in each group
// for each file system of all others. A cell that has waited for a while for its first
// command gives them to the next cell, and has others when it needs them. From then on they
// are its own until it ends: what was written is charged to them.
//
// Where cells do so, their PID 1s are together in one group, and in one net namespace.

// place is where the commands of a cell run.
type place struct {
	mu    sync.RWMutex
	state placeState
	group *cgroup.Group // nil where there are no cgroups, and without a place
	leave *time.Timer   // gives an unused one back; nil where that is never done
}

type placeState string

const (
	vacant   placeState = "vacant"   // there is none, and nothing has run in the cell
	unused   placeState = "unused"   // it is there, and nothing has run
	occupied placeState = "occupied" // something may have run
	ended    placeState = "ended"    // nothing will
)

// placeStates are those that may follow each.
var placeStates = map[placeState][]placeState{
	vacant:   {unused, occupied, ended},
	unused:   {vacant, occupied, ended},
	occupied: {ended},
	ended:    {},
}

// become changes the state. One that does not follow is a defect of this package.
func (p *place) become(next placeState) {
	if !slices.Contains(placeStates[p.state], next) {
		panic(fmt.Sprintf("cell: a place cannot be %s after it was %s", next, p.state))
	}
	p.state = next
}

// waitForFirst is how long a cell waits for its first command with a place for it.
var waitForFirst = 5 * time.Second // tests change it

// occupy gives the cell's group, with the limits of the cell, to whoever has something run
// there. It is nil where there are no cgroups. Errors: NotFound for a cell that is ending.
func (i *instance) occupy() (*cgroup.Group, error) {
	p := &i.place
	if group, is := p.occupied(); is {
		return group, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.state {
	case occupied:
		return p.group, nil
	case ended:
		return nil, &sandbox.Error{Class: sandbox.NotFound, Op: "cell", Reason: "the sandbox is ending"}
	case vacant:
		if err := i.furnish(); err != nil {
			return nil, err
		}
	case unused:
	}
	if p.leave != nil {
		p.leave.Stop()
	}
	p.become(occupied)
	return p.group, nil
}

// occupied gives the group of a place that is occupied.
func (p *place) occupied() (*cgroup.Group, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.group, p.state == occupied
}

// furnish gives a vacant cell a group with its limits. The lock is held.
func (i *instance) furnish() error {
	group, way, err := i.engine.groups.make()
	if err != nil {
		return err
	}
	if err = i.engine.limit(group, i.spec.Limits); err == nil && group != nil {
		way = group.Way()
	}
	if err = errors.Join(err, i.cell.Regroup(way)); err != nil {
		return joinRemoval(context.Background(), group, err)
	}
	i.place.group = group
	return nil
}

// wait has a cell that was just made wait for its first command.
func (i *instance) wait() {
	p := &i.place
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == unused && i.engine.host.SharesInit() {
		p.leave = time.AfterFunc(waitForFirst, i.vacate)
	}
}

// vacate gives the place of a cell to others if nothing has run there.
func (i *instance) vacate() {
	p := &i.place
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != unused {
		return
	}
	if err := i.cell.Vacate(); err != nil {
		if i.Alive() == nil {
			i.engine.log.Warn("cell: a sandbox that is not used keeps its control groups", "sandbox", i.ID(), "err", err)
		}
		return // as it is, it can be used
	}
	p.become(vacant)
	group := p.group
	p.group = nil
	err := i.cell.Regroup(cgroup.Way{})
	if err = joinRemoval(context.Background(), group, err); err != nil { // it goes with this program
		i.engine.log.Warn("cell: the control groups of a sandbox that is not used could not be given back", "sandbox", i.ID(), "err", err)
	}
}

// quit ends the use of the place, and gives the group, which is to be removed.
func (i *instance) quit() *cgroup.Group {
	p := &i.place
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leave != nil {
		p.leave.Stop()
	}
	p.become(ended)
	return p.group
}

// group is that of the cell, or nil for a cell that has none now.
func (i *instance) group() *cgroup.Group {
	i.place.mu.RLock()
	defer i.place.mu.RUnlock()
	return i.place.group
}

// initIsApart says that PID 1 is in no group of the cell.
func (e *engine) initIsApart() bool { return e.groups != nil && e.host.SharesInit() }

// apart has PID 1 be in the group of those who only wait, where it is apart.
func (e *engine) apart(config *confine.Config) (err error) {
	if e.initIsApart() {
		config.Init, err = e.groups.waiting()
	}
	return err
}
