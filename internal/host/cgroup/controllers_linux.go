package cgroup

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// giveControllers enables the controllers of a version 2 tree for the groups
// below the new parent.
func giveControllers(t tree, name string) error {
	base := node{unix.AT_FDCWD, t.base}
	if t.crowded {
		if err := stepAside(base.child(name + selfSuffix)); err != nil {
			return err
		}
	}
	line := switches('+', t.holds)
	if err := base.write("cgroup.subtree_control", line); err != nil {
		return err
	}
	return base.child(name).write("cgroup.subtree_control", line)
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

func stepAside(own node) error {
	if err := own.mkdir(); err != nil {
		return err
	}
	return own.write("cgroup.procs", ownPid())
}

// stepBack undoes stepAside. Where others have since made groups with
// controllers beside ours, the program has to stay where it is, which harms
// nobody: its empty group goes with the group around it.
func stepBack(t tree, name string) error {
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
	return base.child(name + selfSuffix).rmdir()
}

func ownPid() []byte { return strconv.AppendInt(nil, int64(os.Getpid()), 10) }
