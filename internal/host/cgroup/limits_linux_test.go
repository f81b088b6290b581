package cgroup

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/sandbox"
)

func TestMemoryLimitKillsInside(t *testing.T) { onEachLayout(t, memoryLimitKillsInside) }

func memoryLimitKillsInside(t *testing.T, o *Owner) {
	g := group(t, o, Limits{Memory: 64 << 20})
	beside := group(t, o, Limits{Memory: 512 << 20})

	err := play(t, g, "hog", "200").Run()
	exit, ok := err.(*exec.ExitError)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("a process over its memory ended with %v, want killed", err)
	}
	if out, err := play(t, beside, "hog", "200").Output(); err != nil || !strings.Contains(string(out), "200") {
		t.Fatalf("the group beside: %q, %v", out, err)
	}
	if e := events(t, g); e.OOMKills == 0 {
		t.Error("the kill was not counted")
	}
	if e := events(t, beside); e != (Events{}) {
		t.Errorf("the group beside counts %+v", e)
	}
	s := stats(t, beside)
	if *s.MemoryPeakBytes < 200<<20 || *s.MemoryPeakBytes > 512<<20 {
		t.Errorf("peak of 200 MiB reads as %d", *s.MemoryPeakBytes)
	}
}

func TestPidsLimitStopsAForkBomb(t *testing.T) { onEachLayout(t, pidsLimitStopsAForkBomb) }

func pidsLimitStopsAForkBomb(t *testing.T, o *Owner) {
	g := group(t, o, Limits{Pids: 40})
	out, err := play(t, g, "bomb").Output()
	if err != nil || !strings.Contains(string(out), "stopped at") {
		t.Fatalf("%q, %v", out, err)
	}
	if e := events(t, g); e.PidsDenied == 0 {
		t.Error("the refusal was not counted")
	}
	if n := *stats(t, g).Processes; n < 10 || n > 40 {
		t.Errorf("%d processes, want some and at most 40", n)
	}
	end(t, g)
}

func TestCPUQuotaHolds(t *testing.T) { onEachLayout(t, cPUQuotaHolds) }

func cPUQuotaHolds(t *testing.T, o *Owner) {
	// One period's worth may be spent before the first throttling. A busy host may give
	// less than the quota. It gives no more, but what the host itself was not given may
	// count as used by who had the processor: so it is tried again.
	var g *Group
	var used, took time.Duration
	for range 5 {
		g = group(t, o, Limits{CPUs: 0.2})
		start := time.Now()
		if err := play(t, g, "burn").Run(); err != nil {
			t.Fatal(err)
		}
		used, took = *stats(t, g).CPUTime, time.Since(start)
		if used >= 10*time.Millisecond && used <= took/5+120*time.Millisecond {
			break
		}
	}
	if used < 10*time.Millisecond || used > took/5+120*time.Millisecond {
		t.Errorf("%v at 0.2 processors used %v", took, used)
	}
	n, _ := g.with(CPU)
	text, err := n.read("cpu.stat")
	if held, _ := counter(text, "nr_throttled"); err != nil || held == 0 && used > 150*time.Millisecond {
		t.Errorf("%v were used and the quota was never reached: %q, %v", used, text, err)
	}
}

func TestLimitsCanBeRaisedAndLifted(t *testing.T) {
	g := group(t, owner(t), Limits{Memory: 64 << 20, CPUs: 0.5, Pids: 10})
	for _, l := range []Limits{{Memory: 128 << 20, CPUs: 1, Pids: 20}, {Memory: 32 << 20, CPUs: 0.1, Pids: 5}, {}, {Memory: 1 << 30}} {
		if err := g.Set(l); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

// TestMemoryLimitHasAShareForSockets: version 1 counts their buffers only in groups
// that have a limit for them.
func TestMemoryLimitHasAShareForSockets(t *testing.T) {
	g := group(t, owner(t), Limits{})
	n, _ := g.with(Memory)
	if g.unified(Memory) || !n.exists(socketLimit) {
		t.Skip("here buffers of sockets are memory like any other")
	}
	for _, memory := range []int64{64 << 20, 256 << 20, 32 << 20} {
		if err := g.Set(Limits{Memory: memory}); err != nil {
			t.Fatal(err)
		}
		text, err := n.read(socketLimit)
		if want := strconv.FormatInt(memory/socketShare, 10); err != nil || strings.TrimSpace(string(text)) != want {
			t.Errorf("with %d of memory, sockets may have %q, not %s: %v", memory, text, want, err)
		}
	}
}

func TestSetRefusesBadLimits(t *testing.T) {
	g := group(t, owner(t), Limits{})
	for field, l := range map[string]Limits{
		"limits.memory": {Memory: 1}, "limits.cpus": {CPUs: -1}, "limits.processes": {Pids: -1},
	} {
		err, ok := g.Set(l).(*sandbox.Error)
		if !ok || err.Class != sandbox.Invalid || err.Field != field {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

func events(t *testing.T, g *Group) Events {
	t.Helper()
	e, err := g.Events()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func stats(t *testing.T, g *Group) sandbox.Stats {
	t.Helper()
	s, err := g.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func end(t *testing.T, g *Group) {
	t.Helper()
	if err := g.Kill(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := g.Remove(context.Background()); err != nil {
		t.Fatal(err)
	}
}
