package daemon

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

// Known is a figure of a daemon's. What it does not know it says is zero or less.
func Known[N ~int64 | ~uint64](value N) *int64 {
	figure := int64(value)
	if figure <= 0 {
		return nil
	}
	return &figure
}

// Counters are the files of a container's cgroups that count what its limits have
// stopped, of which daemons say nothing. They are empty where this program does not
// see the daemon's cgroups.
type Counters struct{ memory, pids string }

const cgroupMount = "/sys/fs/cgroup"

// FindCounters looks for the groups of a container's first process, and says
// whether it is in any that speaks of the container: else it is another process,
// which has that number here.
func FindCounters(pid int, container string) (Counters, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return Counters{}, false
	}
	return parseGroups(text, container)
}

// parseGroups reads lines of the form "4:cpu,memory:/path", with "0::/path" for
// version 2.
func parseGroups(text []byte, container string) (c Counters, found bool) {
	for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
		fields := strings.SplitN(scan.Text(), ":", 3)
		if len(fields) != 3 || !strings.Contains(fields[2], container) {
			continue
		}
		found = true
		controllers, path := strings.Split(fields[1], ","), fields[2]
		switch {
		case fields[0] == "0" && c == Counters{}:
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

// OOMKills is how many processes were killed for memory, nil if nobody knows.
func (c Counters) OOMKills() *int64 { return count(c.memory, "oom_kill") }

// ForksDenied is how often no process could be started, nil if nobody knows.
func (c Counters) ForksDenied() *int64 { return count(c.pids, "max") }

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
