package cgroup

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// unifiedGroup is a version 2 group of plain files.
func unifiedGroup(t *testing.T, files map[string]string) (*Group, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "g")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		put(t, filepath.Join(dir, name), text)
	}
	h := &Hierarchy{Layout: V2, trees: []tree{{base: filepath.Dir(dir), holds: limiting, unified: true}}}
	return &Group{owner: &Owner{host: h}, name: "g", nodes: []node{{unix.AT_FDCWD, dir}}}, dir
}

func TestUnifiedLimits(t *testing.T) {
	g, dir := unifiedGroup(t, map[string]string{"memory.max": "", "memory.swap.max": "", "pids.max": "", "cpu.max": ""})
	check := func(l Limits, want map[string]string) {
		t.Helper()
		for file := range want {
			put(t, filepath.Join(dir, file), "")
		}
		if err := g.Set(l); err != nil {
			t.Fatal(err)
		}
		for file, text := range want {
			if got, _ := os.ReadFile(filepath.Join(dir, file)); string(got) != text {
				t.Errorf("%+v: %s holds %q, want %q", l, file, got, text)
			}
		}
	}
	check(Limits{Memory: 1 << 30, CPUs: 1.5, Pids: 9},
		map[string]string{"memory.max": "1073741824", "memory.swap.max": "0", "cpu.max": "150000", "pids.max": "9"})
	check(Limits{CPUs: 1.5}, map[string]string{"memory.max": "max", "cpu.max": "", "pids.max": "max"})
}

func TestUnifiedFigures(t *testing.T) {
	g, _ := unifiedGroup(t, map[string]string{
		"memory.current": "4096\n", "pids.current": "3\n", "pids.events": "max 2\n",
		"memory.events": "low 0\noom 5\noom_kill 4\n", "cpu.stat": "usage_usec 1500\nuser_usec 1\n",
	})
	s := stats(t, g)
	if *s.MemoryBytes != 4096 || *s.Processes != 3 || *s.CPUTime != 1500*time.Microsecond {
		t.Errorf("got %d bytes, %d processes, %v", *s.MemoryBytes, *s.Processes, *s.CPUTime)
	}
	if s.MemoryPeakBytes != nil {
		t.Errorf("a peak that the kernel does not count is %d", *s.MemoryPeakBytes)
	}
	if e := events(t, g); e != (Events{OOMKills: 4, PidsDenied: 2}) {
		t.Errorf("%+v", e)
	}
}

func TestUnifiedControllersAreGiven(t *testing.T) {
	root, _ := fakeTree(t, map[string]string{"/": "", "/aether-x": ""})
	if err := giveControllers(tree{base: root, holds: limiting, unified: true}, "aether-x"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{root, root + "/aether-x"} {
		if got, _ := os.ReadFile(dir + "/cgroup.subtree_control"); string(got) != "+memory +pids +cpu " {
			t.Errorf("%s: %q", dir, got)
		}
	}
}
