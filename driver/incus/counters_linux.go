package incus

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// counters are the files of a container's cgroups that count what its limits have
// stopped, of which the daemon says nothing.
type counters struct{ memory, pids string }

const cgroupMount = "/sys/fs/cgroup"

// findCounters looks for the groups of a container's first process, and says
// whether it is in any that has the container's name.
func findCounters(pid int, container string) (counters, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return counters{}, false
	}
	return parseGroups(text, container)
}

// parseGroups reads lines of the form "4:cpu,memory:/path", with "0::/path" for
// version 2.
func parseGroups(text []byte, container string) (c counters, found bool) {
	for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
		fields := strings.SplitN(scan.Text(), ":", 3)
		if len(fields) != 3 || !strings.Contains(fields[2], container) {
			continue
		}
		found = true
		controllers, path := strings.Split(fields[1], ","), fields[2]
		switch {
		case fields[0] == "0" && c == counters{}:
			c.memory = filepath.Join(cgroupMount, path, "memory.events")
			c.pids = filepath.Join(cgroupMount, path, "pids.events")
		case slices.Contains(controllers, "memory"):
			c.memory = filepath.Join(cgroupMount, fields[1], path, "memory.oom_control")
		case slices.Contains(controllers, "pids"):
			c.pids = filepath.Join(cgroupMount, fields[1], path, "pids.events")
		}
	}
	return c, found
}

func (c counters) oomKills() *int64    { return count(c.memory, "oom_kill") }
func (c counters) forksDenied() *int64 { return count(c.pids, "max") }

// count reads one line "key number" of a file.
func count(file, key string) *int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
				return &n
			}
		}
	}
	return nil
}
