package aethervm

import (
	"os"
	"testing"
	"time"

	"aether/driver/drivertest/leaktest"
)

// monitors are the living processes of this program, once there are so many, but for the one
// that holds networks for as long as this program lives.
func monitors(t *testing.T, want int) map[int]bool {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		list := map[int]bool{}
		var names []string
		for _, p := range leaktest.Descendants(t, os.Getpid()) {
			if !p.Ended() && p.Name != "aether-net" {
				list[p.PID] = true
				names = append(names, p.Name)
			}
		}
		if len(list) == want {
			return list
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d monitors are there, and not %d: %q", len(list), want, names)
		}
	}
}

// TestMonitorsThatWait: two wait beside each machine. Those that are killed meanwhile are nobody's
// loss, machines are made of those that live, and a closed driver leaves none.
func TestMonitorsThatWait(t *testing.T) {
	d := newDriver(t)
	monitors(t, 0) // of the probes before
	const waiting = 2
	first := create(t, d, "first")
	before := monitors(t, 1+waiting)
	child := fork(t, first, "child")[0]
	with := monitors(t, 2+waiting)
	taken := 0
	for pid := range before {
		if with[pid] {
			taken++
		}
	}
	if taken != 1+waiting {
		t.Errorf("%d of %d monitors of before are there", taken, len(before))
	}
	if err := child.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	left := monitors(t, 1+waiting)
	if got := run(t, first, "echo here"); got != "here" {
		t.Errorf("the first says %q", got)
	}
	// All that wait are killed, and the first machine with them: nobody knows which is which.
	for pid := range left {
		p, err := os.FindProcess(pid)
		if err == nil {
			err = p.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := run(t, create(t, d, "next"), "hostname"); got != "next" {
		t.Errorf("the next says %q", got)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
	monitors(t, 0)
}
