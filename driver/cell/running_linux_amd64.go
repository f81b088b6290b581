package cell

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"aether/internal/host/checkpoint"
	"aether/internal/host/zygote"
	"aether/sandbox"
)

// roots are the processes whose parents are not in the cell, in their order.
func (i *instance) roots() (all []checkpoint.Running) {
	var list []*process
	for p := range i.live.Range {
		list = append(list, p.(*process))
	}
	slices.SortFunc(list, func(a, b *process) int { return a.inside - b.inside })
	for _, p := range list {
		parent := checkpoint.Outside
		if p.orphan {
			parent = checkpoint.Orphaned
		}
		all = append(all, checkpoint.Running{PID: p.Process.Pid(), Parent: parent})
	}
	return all
}

// runningStill are the processes that a checkpoint was taken of, if they are the
// cell's commands: then these have most likely started no others yet.
func (i *instance) runningStill(last *zygote.Tree) ([]checkpoint.Running, bool) {
	if last == nil {
		return nil, false
	}
	all := last.Processes()
	return all, slices.Equal(all, i.roots())
}

// running are all processes of the cell: every command with those that it has
// started, and those that have outlived the one that started them.
func (i *instance) running() (all []checkpoint.Running, err error) {
	roots := i.roots()
	orphans, err := checkpoint.Children(i.cell.Pid())
	if err != nil {
		return nil, err
	}
	for _, pid := range orphans {
		roots = append(roots, checkpoint.Running{PID: pid, Parent: checkpoint.Orphaned})
	}
	for _, root := range roots {
		if all, err = family(all, root.PID, root.Parent); err != nil {
			return nil, err
		}
	}
	return all, nil
}

const maxRunning = 1024

// family appends a process and all that it has started, parents first.
func family(list []checkpoint.Running, pid, parent int) ([]checkpoint.Running, error) {
	if len(list) == maxRunning {
		return nil, &sandbox.Error{Class: sandbox.Conflict, Reason: fmt.Sprintf("the cell has more than %d processes", maxRunning)}
	}
	place := len(list)
	list = append(list, checkpoint.Running{PID: pid, Parent: parent})
	children, err := checkpoint.Children(pid)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, child := range children {
		if list, err = family(list, child, place); err != nil {
			return nil, err
		}
	}
	return list, nil
}
