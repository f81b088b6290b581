package cell

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"aether/host/confine"
	"aether/host/twin"
	"aether/sandbox"
)

// running are all processes of the cell: every command with those that it has
// started.
func (i *instance) running() (all []confine.Running, err error) {
	var commands []*process
	for p := range i.live.Range {
		commands = append(commands, p.(*process))
	}
	slices.SortFunc(commands, func(a, b *process) int { return a.inside - b.inside })
	for _, p := range commands {
		if all, err = family(all, p.Process.Pid(), -1); err != nil {
			return nil, err
		}
	}
	orphans, err := twin.Children(i.cell.Pid())
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
func family(list []confine.Running, pid, parent int) ([]confine.Running, error) {
	if len(list) == maxRunning {
		return nil, &sandbox.Error{Class: sandbox.Conflict, Reason: fmt.Sprintf("the cell has more than %d processes", maxRunning)}
	}
	place := len(list)
	list = append(list, confine.Running{PID: pid, Parent: parent})
	children, err := twin.Children(pid)
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
