package launch

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// ChildRoot opens the root directory of the only child of a program, which is the
// first process of the sandbox that it made.
func ChildRoot(program *spawn.Process) (*os.File, error) {
	child, err := onlyChild(program.Pid())
	if err != nil {
		return nil, fmt.Errorf("launch: find the sandbox's first process: %w", err)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/root", child), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("launch: root of process %d: %w", child, err)
	}
	return os.NewFile(uintptr(fd), "root"), nil
}

func onlyChild(parent int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	found := strings.Fields(string(text))
	if os.IsNotExist(err) { // not every kernel has that list
		found, err = searchChildren(parent)
	}
	if err != nil {
		return 0, err
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("process %d has %d children", parent, len(found))
	}
	return strconv.Atoi(found[0])
}

func searchChildren(parent int) (found []string, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // no process, or one that has ended
		}
		// After the name, which may hold anything, come the state and the parent.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			found = append(found, e.Name())
		}
	}
	slices.Sort(found)
	return found, nil
}
