package cgroup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

func retire(t *testing.T, g *Group) {
	t.Helper()
	if err := g.Retire(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Stats(); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("stats of a group that was given back: %v", err)
	}
}

func claim(t *testing.T, o *Owner, name string) *Group {
	t.Helper()
	g, err := o.Claim(name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// keepLong has groups be kept until somebody wants them, however slow the host is.
func keepLong(t *testing.T) {
	t.Helper()
	was := keepFor
	keepFor = 2 * patience
	t.Cleanup(func() { keepFor = was })
}

// reused makes sure that g is the directories of another, where the kernel tells that
// they are empty.
func reused(t *testing.T, g *Group, name string) {
	t.Helper()
	at, ok := g.owner.control()
	if ok && g.owner.host.trees[at].unified && g.name != name {
		t.Fatalf("the group %s was made anew, and not %s used again", g.name, name)
	}
}

func TestReusedGroupShowsNothingOfItsLastOwner(t *testing.T) {
	keepLong(t)
	onEachLayout(t, func(t *testing.T, o *Owner) {
		first := group(t, o, Limits{Memory: 64 << 20})
		name := first.name
		if err := play(t, first, "hog", "200").Run(); err == nil {
			t.Fatal("a process over its memory lives")
		}
		if events(t, first).OOMKills == 0 || *stats(t, first).CPUTime == 0 {
			t.Fatal("nothing was counted for the first owner")
		}
		retire(t, first)
		second := claim(t, o, "another")
		reused(t, second, name)
		s := stats(t, second)
		if value(s.MemoryBytes) > mostLeft || *s.CPUTime > time.Millisecond || *s.Processes != 0 {
			t.Errorf("it shows %d bytes, %v and %d processes", value(s.MemoryBytes), *s.CPUTime, *s.Processes)
		}
		if s.MemoryPeakBytes != nil && *s.MemoryPeakBytes > mostLeft {
			t.Errorf("its peak is %d", *s.MemoryPeakBytes)
		}
		if e := events(t, second); e != (Events{}) {
			t.Errorf("it counts %+v", e)
		}
		if out, err := play(t, second, "hog", "100").Output(); err != nil {
			t.Errorf("under the first owner's limit: %q, %v", out, err)
		}
		if s := stats(t, second); s.MemoryPeakBytes != nil && *s.MemoryPeakBytes < 100<<20 {
			t.Errorf("a peak of 100 MiB reads as %d", *s.MemoryPeakBytes)
		}
		end(t, second)
	})
}

func TestReusedGroupIsNotFrozen(t *testing.T) {
	keepLong(t)
	o := owner(t)
	first := group(t, o, Limits{})
	name := first.name
	if err := first.Freeze(context.Background()); err != nil {
		t.Fatal(err)
	}
	retire(t, first)
	second := claim(t, o, "another")
	reused(t, second, name)
	if out, err := play(t, second, "hog", "1").Output(); err != nil {
		t.Errorf("%q, %v", out, err)
	}
	end(t, second)
}

func TestBusyGroupIsNotReused(t *testing.T) {
	o := owner(t)
	const limit = 512 << 20
	g := group(t, o, Limits{Memory: limit})
	cmd := play(t, g, "daemons")
	ready(t, cmd)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := g.Retire(ctx); sandbox.ClassOf(err) != sandbox.Timeout {
		t.Errorf("a group with processes: %v", err)
	}
	n, _ := g.with(Memory)
	file := "memory.limit_in_bytes"
	if g.unified(Memory) {
		file = "memory.max"
	}
	if text, err := n.read(file); err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(limit) {
		t.Errorf("those who are in it have a limit of %q, %v", text, err)
	}
	if other := claim(t, o, "another"); other.name == g.name {
		t.Error("it has two owners")
	}
	end(t, g)
}

func TestGroupsThatNobodyWantsAreRemoved(t *testing.T) {
	o := owner(t)
	var list []*Group
	for i := range 8 {
		list = append(list, claim(t, o, fmt.Sprintf("g%d", i)))
	}
	for _, g := range list {
		retire(t, g)
	}
	at, ok := o.control()
	if !ok {
		t.Skip("no groups of this host can be killed or frozen")
	}
	left := func() int {
		entries, err := os.ReadDir(directories(o)[at])
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, e := range entries {
			if matched, _ := filepath.Match("g*", e.Name()); matched && e.IsDir() {
				n++
			}
		}
		return n
	}
	if !eventually(func() bool { return left() == 0 }) {
		t.Errorf("%d groups are left", left())
	}
}

// TestUnknownPeakIsNotTold is for hosts of version 2, where nothing sets the peak back.
func TestUnknownPeakIsNotTold(t *testing.T) {
	g, dir := unifiedGroup(t, map[string]string{
		"memory.current": "4096\n", "memory.peak": "9000\n", "pids.current": "0\n", "pids.events": "max 2\n",
		"memory.events": "oom_kill 4\n", "cpu.stat": "usage_usec 1500\n",
	})
	if clean, err := g.rebase(); err != nil || !clean {
		t.Fatal(clean, err)
	}
	if s := stats(t, g); s.MemoryPeakBytes != nil || *s.MemoryBytes != 4096 || *s.CPUTime != 0 {
		t.Errorf("%+v", s)
	}
	put(t, filepath.Join(dir, "memory.peak"), "20000\n")
	if s := stats(t, g); *s.MemoryPeakBytes != 20000-4096 {
		t.Errorf("the peak is %d", *s.MemoryPeakBytes)
	}
	if e := events(t, g); e != (Events{}) {
		t.Errorf("%+v", e)
	}
}

// TestMemoryThatWasLeft: what is freed late may be the last owner's.
func TestMemoryThatWasLeft(t *testing.T) {
	left := figures{memory: 400 << 10, peak: 1 << 20, cpu: time.Second}
	for _, test := range []struct{ uses, want int64 }{{500 << 10, 100 << 10}, {400 << 10, 400 << 10}, {300 << 10, 300 << 10}} {
		if got := left.own(sandbox.Stats{MemoryBytes: &test.uses}, true).MemoryBytes; got == nil || *got != test.want {
			t.Errorf("of %d bytes, %d of which were there before, %v are its own", test.uses, left.memory, got)
		}
	}
}
