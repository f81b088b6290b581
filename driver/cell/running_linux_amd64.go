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

// roots are the processes that were started from outside, in their order.
func (i *instance) roots() (pids []int) {
	var list []*process
	for p := range i.live.Range {
		list = append(list, p.(*process))
	}
	slices.SortFunc(list, func(a, b *process) int { return a.inside - b.inside })
	for _, p := range list {
		pids = append(pids, p.Process.Pid())
	}
	return pids
}

// runningStill are the processes that a checkpoint was taken of, if they are the
// cell's commands: then these have most likely started no others yet.
func (i *instance) runningStill(last *zygote.Tree) ([]checkpoint.Running, bool) {
	if last == nil {
		return nil, false
	}
	all := last.Processes()
	same := slices.EqualFunc(all, i.roots(), func(r checkpoint.Running, pid int) bool { return r == checkpoint.Running{PID: pid, Parent: -1} })
	return all, same
}

// running are all processes of the cell: every command with those that it has
// started.
func (i *instance) running() (all []checkpoint.Running, err error) {
	for _, pid := range i.roots() {
		if all, err = family(all, pid, -1); err != nil {
			return nil, err
		}
	}
	orphans, err := checkpoint.Children(i.cell.Pid())
	if err != nil {
		return nil, err
	}
	if len(orphans) > 0 {
		return nil, &sandbox.Error{Class: sandbox.Conflict, Remedy: "end them, or start them as commands",
			Reason: fmt.Sprintf("%d processes of the cell have outlived the one that started them (one is %d on the host)", len(orphans), orphans[0])}
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
