package twin

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Children lists the children of all threads of a process, the oldest first.
func Children(pid int) (children []int, err error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	for _, task := range tasks {
		text, err := readProc(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
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

// Starting says that the process has started another one since its own were
// looked at.
func (p *Paused) Starting() error {
	return refuse(p.Inside, p.Name, "is starting processes", true)
}
