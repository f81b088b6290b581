package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Children lists the children of all threads of a process, the oldest first.
func Children(pid int) (children []int, err error) {
	tids, err := threadIDs(pid)
	if err != nil {
		return nil, err
	}
	for _, tid := range tids {
		text, err := readProc(fmt.Sprintf("/proc/%d/task/%d/children", pid, tid))
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

// countThreads counts the threads of a process without listing them.
func countThreads(pid int) (int, error) {
	const others = 2 // links of a directory to itself
	path := fmt.Sprintf("/proc/%d/task", pid)
	var info unix.Stat_t
	if err := unix.Stat(path, &info); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return int(info.Nlink) - others, nil
}
