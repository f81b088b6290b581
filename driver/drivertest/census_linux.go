package drivertest

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// census is what this program and its driver hold of the host.
type census struct {
	processes   []string // everything below this program, and what has come loose
	mounts      []string
	groups      []string // cgroups of the programs that use dir
	devices     []string // of the network
	descriptors map[string]int
	files       []string // under dir
	goroutines  int
	left        []string // as the driver's own system says
}

func (c Config) census(t testing.TB, dir string) census {
	t.Helper()
	now := census{
		processes: describe(ownProcesses(t)), mounts: lined(t, "/proc/self/mountinfo"), groups: groupsOf(t, dir),
		devices: netDevices(t), descriptors: descriptors(t), files: filesUnder(dir), goroutines: runtime.NumGoroutine(),
	}
	if c.Left != nil {
		left, err := c.Left()
		if err != nil {
			t.Fatal(err)
		}
		now.left = left
	}
	return now
}

// grown lists what there is more of than before.
func (now census) grown(before census) (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for name, both := range map[string][2][]string{
		"processes": {before.processes, now.processes}, "mounts": {before.mounts, now.mounts}, "cgroups": {before.groups, now.groups},
		"network devices": {before.devices, now.devices}, "files": {before.files, now.files}, "left": {before.left, now.left},
	} {
		if len(both[1]) > len(both[0]) {
			add("%s: %d, now %d: %.2000q", name, len(both[0]), len(both[1]), newIn(both[0], both[1]))
		}
	}
	for kind, count := range now.descriptors {
		if count > before.descriptors[kind] {
			add("descriptors of %s: %d, now %d", kind, before.descriptors[kind], count)
		}
	}
	if now.goroutines > before.goroutines {
		add("goroutines: %d, now %d", before.goroutines, now.goroutines)
	}
	return list
}

func newIn(before, now []string) []string {
	return slices.DeleteFunc(slices.Clone(now), func(s string) bool { return slices.Contains(before, s) })
}

// peer is a process as /proc shows it.
type peer struct {
	pid, parent int
	name        string
	state       byte
	adjust      string // oom_score_adj
}

// peers lists the processes of the host. One that ends meanwhile is left out.
func peers(t testing.TB) (list []peer) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readPeer(pid); ok {
			list = append(list, p)
		}
	}
	return list
}

// readPeer reads "pid (name) state parent ...", where the name may hold anything.
func readPeer(pid int) (peer, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if err != nil || open < 0 || end < open {
		return peer{}, false
	}
	fields := strings.Fields(string(text[end+1:]))
	parent, err := strconv.Atoi(fields[1])
	adjust, _ := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	return peer{pid, parent, string(text[open+1 : end]), fields[0][0], strings.TrimSpace(string(adjust))}, err == nil
}

// descendants are the processes below one, zombies included.
func descendants(t testing.TB, root int) (found []peer) {
	t.Helper()
	below := map[int]bool{root: true}
	all := peers(t)
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if below[p.parent] && !below[p.pid] {
				below[p.pid], grew = true, true
				found = append(found, p)
			}
		}
	}
	return found
}

// adjustFile is inherited by every process that comes of another, whatever
// namespace, session or parent it ends up with. Few use it, so it serves as a mark.
const adjustFile = "/proc/self/oom_score_adj"

// markSelf marks all processes that this one will start, for the test's time.
func markSelf(t *testing.T) {
	t.Helper()
	was, err := os.ReadFile(adjustFile)
	if err == nil {
		err = os.WriteFile(adjustFile, []byte(strconv.Itoa(freeMarks(t, 550, 600, 1))), 0)
	}
	if os.IsPermission(err) {
		t.Skip("the kernel does not let an ordinary user's program that cannot be dumped mark its processes")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A program that has become undumpable meanwhile keeps its mark.
		if err := os.WriteFile(adjustFile, was, 0); err != nil && !os.IsPermission(err) {
			t.Error(err)
		}
	})
}

// freeMarks gives the first of so many marks in a row that no process has. Those
// of the service inside a sandbox stay if they are over 500.
func freeMarks(t testing.TB, from, to, count int) int {
	t.Helper()
	taken := map[string]bool{}
	for _, p := range peers(t) {
		taken[p.adjust] = true
	}
	for {
		first, free := from+rand.IntN(to-from-count+1), true
		for n := range count {
			free = free && !taken[strconv.Itoa(first+n)]
		}
		if free {
			return first
		}
	}
}

// ownProcesses are those below this one, zombies included, and the living ones
// with its mark: their parent may have ended before them.
func ownProcesses(t testing.TB) []peer {
	t.Helper()
	found := descendants(t, os.Getpid())
	self, _ := readPeer(os.Getpid())
	if mark, err := strconv.Atoi(self.adjust); err != nil || mark < 550 {
		return found // not marked
	}
	for _, p := range peers(t) {
		if p.adjust == self.adjust && p.pid != self.pid && p.state != 'Z' && p.state != 'X' && !slices.Contains(found, p) {
			found = append(found, p)
		}
	}
	return found
}

func describe(list []peer) (names []string) {
	for _, p := range list {
		names = append(names, fmt.Sprintf("%d %s %c", p.pid, p.name, p.state))
	}
	return names
}

func lined(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// groupsOf lists the cgroups that the locks of internal/host/cgroup in dir speak of, with
// all below.
func groupsOf(t testing.TB, dir string) (found []string) {
	t.Helper()
	for _, lock := range filesUnder(dir) {
		if filepath.Ext(lock) != ".cgroup" {
			continue
		}
		text, err := os.ReadFile(lock)
		if err != nil {
			continue // its program has just ended
		}
		for _, group := range strings.Fields(string(text)) {
			found = append(found, walk(group, fs.DirEntry.IsDir)...)
		}
	}
	return found
}

func filesUnder(dir string) []string { return walk(dir, func(fs.DirEntry) bool { return true }) }

// walk lists what is below a directory that may be changing.
func walk(dir string, keep func(fs.DirEntry) bool) (found []string) {
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && keep(e) {
			found = append(found, name)
		}
		return nil
	})
	return found
}

func netDevices(t testing.TB) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("/sys/class/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// descriptors counts the open ones of this program by what they are of.
func descriptors(t testing.TB) map[string]int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil {
			continue // the one that reads the directory
		}
		kind, _, named := strings.Cut(target, ":[")
		if strings.HasPrefix(target, "/sys/fs/cgroup/") {
			kind, named = "cgroups", true
		}
		if !named {
			kind = target
		}
		count[kind]++
	}
	return count
}
