package cgroup

import (
	"context"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// giveControllers enables the controllers of a version 2 tree for the groups
// below the new parent, but for IO, of which few groups have need: see giveIO.
func giveControllers(t tree, name string) error {
	base := node{unix.AT_FDCWD, t.base}
	if t.crowded {
		if err := stepAside(base, base.child(name+selfSuffix)); err != nil {
			return err
		}
	}
	return give(base, base.child(name), t.holds&^IO)
}

// give enables controllers in a group and in the one below it.
func give(base, below node, set Controller) error {
	line := switches('+', set)
	if err := base.write("cgroup.subtree_control", line); err != nil {
		return err
	}
	return below.write("cgroup.subtree_control", line)
}

// giveIO enables IO in the tree of version 2 that holds it, if one does, for all
// groups of the program.
func (o *Owner) giveIO() error {
	for _, t := range o.host.trees {
		if t.unified && t.holds&IO != 0 {
			base := node{unix.AT_FDCWD, t.base}
			return give(base, base.child(o.name), IO)
		}
	}
	return nil
}

// switches is the line that turns controllers on (+) or off (-) for children.
func switches(sign byte, set Controller) []byte {
	var line []byte
	for _, known := range controllerNames {
		if set&known.bit != 0 {
			line = append(append(append(line, sign), known.name...), ' ')
		}
	}
	return line
}

// selfSuffix marks the group into which the program itself steps aside, out of
// the group whose children are to have controllers.
const selfSuffix = "-self"

// stepAside moves the program out of base, with whatever else is there by now: what it is
// starting at this moment by other threads.
func stepAside(base, own node) error {
	if err := own.mkdir(); err != nil {
		return err
	}
	// By its own number: move leaves a process 1 alone, which it is in a container.
	if err := own.write("cgroup.procs", ownPid()); err != nil {
		return err
	}
	return base.move(own)
}

// stepBack undoes stepAside. Where others have since made groups with
// controllers beside ours, the program has to stay where it is, which harms
// nobody: its empty group goes with the group around it.
func stepBack(ctx context.Context, t tree, name string) error {
	base := node{unix.AT_FDCWD, t.base}
	err := base.write("cgroup.subtree_control", switches('-', t.holds))
	if err == nil {
		err = base.write("cgroup.procs", ownPid())
	}
	if errors.Is(err, unix.EBUSY) {
		return nil
	}
	if err != nil {
		return err
	}
	return base.child(name+selfSuffix).clear(ctx, base)
}

// clear moves the processes of a group to another, and removes it. What the program has
// started since it stepped aside is in there with it.
func (n node) clear(ctx context.Context, to node) error {
	if err := n.move(to); err != nil {
		return err
	}
	return n.remove(ctx)
}

// move moves the processes of a group to another, which may start more meanwhile. Who is
// left, of another pid namespace or because they are too many, is told by what comes next:
// the group is still busy.
func (n node) move(to node) error {
	for range 100 {
		pids, err := n.processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := to.write("cgroup.procs", strconv.AppendInt(nil, int64(pid), 10)); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}

func ownPid() []byte { return strconv.AppendInt(nil, int64(os.Getpid()), 10) }
