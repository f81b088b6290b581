package cell_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/driver/drivertest/leaktest"
)

type peer = leaktest.Process

var (
	descendants = leaktest.Descendants
	describe    = leaktest.Describe
	lines       = leaktest.Lines
	newIn       = leaktest.NewIn
)

// census is what this program holds of the host. Two of them can be compared.
type census struct {
	leaktest.Census
	networks []string // net namespaces that this program's threads and children stand in
	heap     uint64
	slab     int64 // what the kernel cannot reclaim
}

func takeCensus(t testing.TB, runDir string) census {
	t.Helper()
	processes := descendants(t, os.Getpid())
	var heap runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&heap)
	return census{leaktest.Take(t, processes, runDir), networks(t, processes), heap.HeapAlloc, meminfo(t, "SUnreclaim")}
}

// Others on the host use slab too, and the idle timer of a closed connection
// keeps its pipe, about a KiB, for two minutes. A leak of one namespace, group
// or service for each of thousands of cells is far above these.
const (
	slabNoise = 64 << 20
	heapNoise = 24 << 20
)

// grown lists what there is more of than before.
func (now census) grown(before census) []string {
	list := slices.Concat(now.Grown(before.Census), leaktest.More("net namespaces", before.networks, now.networks))
	if now.heap > before.heap+heapNoise {
		list = append(list, fmt.Sprintf("heap: %d bytes, now %d", before.heap, now.heap))
	}
	if now.slab > before.slab+slabNoise {
		list = append(list, fmt.Sprintf("slab: %d bytes, now %d", before.slab, now.slab))
	}
	return list
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
		links = append(links, fmt.Sprintf("/proc/%d/ns/net", p.PID))
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
