package cell

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"aether/sandbox"
)

// running are the commands of the cell. A process that is none is refused: it
// has a parent in the cell, which would have to be that of its copy.
func (i *instance) running() ([]*process, error) {
	var list []*process
	known := map[int]bool{}
	for p := range i.live.Range {
		list = append(list, p.(*process))
		known[p.(*process).Process.Pid()] = true
	}
	slices.SortFunc(list, func(a, b *process) int { return a.inside - b.inside })
	parents := []int{i.cell.Pid()}
	for _, p := range list {
		parents = append(parents, p.Process.Pid())
	}
	for _, parent := range parents {
		children, err := childrenOf(parent)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if len(children) > 0 {
			return nil, &sandbox.Error{Class: sandbox.Conflict, Retry: true, Remedy: "wait for them to end",
				Reason: fmt.Sprintf("%d processes of the cell have a parent in the cell (one is %d on the host)", len(children), children[0])}
		}
	}
	return list, nil
}

// childrenOf lists the children of all threads of a process.
func childrenOf(pid int) (children []int, err error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	for _, task := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, field := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return nil, err
			}
			children = append(children, child)
		}
	}
	return children, nil
}
