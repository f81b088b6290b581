package cell_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// census is what this program holds of the host. Two of them can be compared.
type census struct {
	processes   []string // everything below this program
	mounts      []string
	groups      []string // cgroup directories of the programs that use runDir
	networks    []string // net namespaces that this program's threads and children stand in
	descriptors map[string]int
	files       []string // under runDir
	goroutines  int
	heap        uint64
	slab        int64 // what the kernel cannot reclaim
}

func takeCensus(t testing.TB, runDir string) census {
	t.Helper()
	processes := descendants(t, os.Getpid())
	var heap runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&heap)
	return census{
		processes: describe(processes), mounts: lines(t, "/proc/self/mountinfo"), groups: groups(t, runDir),
		networks: networks(t, processes), descriptors: descriptors(t), files: filesUnder(t, runDir),
		goroutines: runtime.NumGoroutine(), heap: heap.HeapAlloc, slab: meminfo(t, "SUnreclaim"),
	}
}

// Others on the host use slab too, and the idle timer of a closed connection
// keeps its pipe, about a KiB, for two minutes. A leak of one namespace, group
// or service for each of thousands of cells is far above these.
const (
	slabNoise = 64 << 20
	heapNoise = 24 << 20
)

// grown lists what there is more of than before.
func (now census) grown(before census) (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for name, both := range map[string][2][]string{
		"processes": {before.processes, now.processes}, "mounts": {before.mounts, now.mounts}, "cgroups": {before.groups, now.groups},
		"net namespaces": {before.networks, now.networks}, "files": {before.files, now.files},
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
	if now.heap > before.heap+heapNoise {
		add("heap: %d bytes, now %d", before.heap, now.heap)
	}
	if now.slab > before.slab+slabNoise {
		add("slab: %d bytes, now %d", before.slab, now.slab)
	}
	return list
}

func newIn(before, now []string) []string {
	return slices.DeleteFunc(slices.Clone(now), func(s string) bool { return slices.Contains(before, s) })
}

// wantNoGrowth gives the kernel and the background time to settle.
func wantNoGrowth(t testing.TB, before census, runDir string) {
	t.Helper()
	var grown []string
	if eventually(15*time.Second, func() bool {
		grown = takeCensus(t, runDir).grown(before)
		return len(grown) == 0
	}) {
		return
	}
	t.Errorf("the host holds more than before:\n%s", strings.Join(grown, "\n"))
}

// peer is a process as /proc shows it.
type peer struct {
	pid, parent int
	name        string
	state       byte
}

// peers lists the processes of the host. One that ends meanwhile is left out.
func peers(t testing.TB) []peer {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var list []peer
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
	return peer{pid: pid, parent: parent, name: string(text[open+1 : end]), state: fields[0][0]}, err == nil
}

// descendants are the processes below one, zombies included.
func descendants(t testing.TB, root int) []peer {
	t.Helper()
	below := map[int]bool{root: true}
	all := peers(t)
	var found []peer
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

func describe(list []peer) (names []string) {
	for _, p := range list {
		names = append(names, fmt.Sprintf("%d %s %c", p.pid, p.name, p.state))
	}
	return names
}

func lines(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// locks are the files by which programs that use runDir say that they live.
func locks(t testing.TB, runDir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(runDir, "aether-*.cgroup"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// groups lists the cgroups that the locks in runDir speak of, with all below.
func groups(t testing.TB, runDir string) (found []string) {
	t.Helper()
	for _, lock := range locks(t, runDir) {
		text, err := os.ReadFile(lock)
		if err != nil {
			continue // its program has just ended
		}
		for _, dir := range strings.Fields(string(text)) {
			found = append(found, tree(dir, fs.DirEntry.IsDir)...)
		}
	}
	return found
}

// tree lists what is below a directory that may be changing.
func tree(dir string, keep func(fs.DirEntry) bool) (found []string) {
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && keep(e) {
			found = append(found, name)
		}
		return nil
	})
	return found
}

func filesUnder(t testing.TB, dir string) []string {
	t.Helper()
	return tree(dir, func(fs.DirEntry) bool { return true })
}

// ownNetwork is read before the program becomes undumpable, after which its
// links can be read at times only.
var ownNetwork, _ = os.Readlink("/proc/self/ns/net")

// networks are the net namespaces, but our own, of this program's threads and
// of processes.
func networks(t testing.TB, processes []peer) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		links = append(links, fmt.Sprintf("/proc/%d/ns/net", p.pid))
	}
	var found []string
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil && name != ownNetwork {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
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

func meminfo(t testing.TB, key string) int64 {
	t.Helper()
	for _, line := range lines(t, "/proc/meminfo") {
		fields := strings.Fields(line)
		if fields[0] != key+":" {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return kib << 10
	}
	t.Fatalf("/proc/meminfo has no %s", key)
	return 0
}
