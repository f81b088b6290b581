package cgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"aether/sandbox"
)

// Group holds the processes of one sandbox, or of one command in it.
type Group struct {
	owner *Owner
	name  string
	nodes []node // one for each tree; without a name where it has no directory

	// parent lends its other trees to a group made by Sub.
	parent *Group

	mu      sync.Mutex
	applied Limits
	rated   bool // there are rates to lift
	divided bool // Sub has made groups in this one
	attach  *Attach
	gone    bool
	before  figures // what was counted for others
}

// Sub makes a group inside this one for a single command, only so that its whole
// tree of processes can be killed, frozen and counted: it costs one directory,
// and the limits around it hold. Errors: as Create, and Unsupported on hosts
// whose groups can neither kill nor freeze.
func (g *Group) Sub(name string) (*Group, error) {
	if !sandbox.IsName(name, maxGroupName) {
		return nil, sandbox.Invalidf("name", "%.80q must be lower-case letters, digits and dashes, at most 128", name)
	}
	at, ok := g.owner.control()
	if !ok || g.parent != nil {
		return nil, &sandbox.Error{Class: sandbox.Unsupported, Op: "cgroup: sub " + name,
			Reason: "this group cannot be divided", Remedy: "mount cgroup2 or the freezer controller"}
	}
	g.mu.Lock()
	g.divided = true
	g.mu.Unlock()
	below := g.nodes[at].child(name)
	if err := below.mkdir(); err != nil {
		return nil, creation(below.name, err)
	}
	return &Group{owner: g.owner, name: below.name, nodes: []node{below}, parent: g}, nil
}

// control is the index of the tree that can kill and freeze.
func (o *Owner) control() (int, bool) {
	for i, t := range o.host.trees {
		if t.unified || t.holds&freezer != 0 {
			return i, true
		}
	}
	return 0, false
}

// controlNode is the directory by which the group is killed. Without version 2
// and without freezer any will do: its processes are then killed one by one.
func (g *Group) controlNode() node {
	if at, ok := g.owner.control(); ok && g.parent == nil {
		return g.nodes[at]
	}
	return g.nodes[slices.IndexFunc(g.nodes, func(n node) bool { return n.name != "" })]
}

// with is the directory of the tree that holds the controller, if there is one.
func (g *Group) with(c Controller) (node, bool) {
	if g.parent != nil {
		return node{}, false
	}
	for i, t := range g.owner.host.trees {
		if t.holds&c != 0 {
			return g.nodes[i], g.nodes[i].name != ""
		}
	}
	return node{}, false
}

// Kill ends every process in the group and in its Subs with SIGKILL. They are
// gone a little later; Remove waits for that. The group has no rates any more.
func (g *Group) Kill(ctx context.Context) error {
	return errors.Join(g.LiftRates(), g.wrap("kill", absent(g.controlNode().kill(ctx))))
}

// KillsAtOnce says whether the kernel kills the whole group in one step.
func (g *Group) KillsAtOnce() bool { return g.controlNode().exists("cgroup.kill") }

// Freeze stops every process in the group and returns when all have stopped.
func (g *Group) Freeze(ctx context.Context) error {
	return g.wrap("freeze", g.controlNode().freeze(ctx))
}

// Thaw lets the processes go on.
func (g *Group) Thaw() error { return g.wrap("thaw", g.controlNode().thaw()) }

// Remove deletes the group and its Subs, waiting for killed processes to leave
// it until the context ends, but ten seconds at most. It is idempotent.
func (g *Group) Remove(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone {
		return nil
	}
	if err := errors.Join(g.closeAttach(), g.liftRates(), removeAll(ctx, g.nodes)); err != nil {
		return g.wrap("remove", err)
	}
	g.gone = true
	return nil
}

func (g *Group) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cgroup: %s %s: %w", verb, g.name, err)
}
