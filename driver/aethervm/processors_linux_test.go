package aethervm

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/driver/vmm/vmmtest"
	"aether/guest"
	"aether/sandbox"
)

const fourProcessors = 4

// TestFourProcessors: a machine with four has four, and they all work while four programs
// do. Its fork and what is restored of it have four as well, on which the same programs go
// on: nobody starts them anew.
func TestFourProcessors(t *testing.T) {
	d := newDriver(t)
	i, err := d.Create(t.Context(), sandbox.Spec{ID: "four", Image: vmmtest.Image(),
		Limits: sandbox.Limits{MemoryBytes: 160 << 20, CPUs: fourProcessors}, Command: sandbox.CommandDefaults{User: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, i, strings.Repeat("(while :; do :; done) > /dev/null 2>&1 & ", fourProcessors))
	allWork(t, i)
	child := fork(t, i, "fork")[0]
	allWork(t, child)
	allWork(t, i)
	if err := i.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := child.(sandbox.Snapshotter).Snapshot(t.Context(), dir, sandbox.Checkpoint); err != nil {
		t.Fatal(err)
	}
	if err := child.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	restored, err := d.Restore(t.Context(), dir, sandbox.Checkpoint, sandbox.Spec{ID: "restored"})
	if err != nil {
		t.Fatal(err)
	}
	allWork(t, restored)
}

// allWork waits until each processor has been busy for more than half of the time since it
// was first looked at. Four programs that never rest keep no fewer than four so.
func allWork(t *testing.T, i sandbox.Instance) {
	t.Helper()
	first := lookAtProcessors(t, i)
	if len(first) != fourProcessors {
		t.Fatalf("%s has %d processors", i.ID(), len(first))
	}
	const enough = 20
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		now, idle := lookAtProcessors(t, i), 0
		for n := range now {
			if busy := now[n].busy - first[n].busy; busy < enough || busy < now[n].idle-first[n].idle {
				idle++
			}
		}
		t.Logf("%s: ticks, busy and idle, by processor: %v, and then %v", i.ID(), first, now)
		if idle == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d processors are idle", i.ID(), idle)
		}
	}
}

// ticks are how a processor has spent its time. One that has something to do and that the
// host does not run meanwhile is busy too: in the lab all share one.
type ticks struct{ busy, idle int }

// lookAtProcessors reads what the guest's kernel counts, without a command: that would have
// to find its way among the programs.
func lookAtProcessors(t *testing.T, i sandbox.Instance) (list []ticks) {
	t.Helper()
	client := guest.NewClient(i.Dial, guest.ClientOptions{})
	defer client.Close()
	file, err := client.Read(t.Context(), "/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	const idle, waits, stolen = 3, 4, 7 // of user, nice, system, idle, iowait, irq, softirq, steal
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if number, found := strings.CutPrefix(fields[0], "cpu"); !found || number == "" {
			continue
		}
		var one ticks
		for n, field := range fields[1 : stolen+2] {
			spent, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			if n == idle || n == waits {
				one.idle += spent
			} else {
				one.busy += spent
			}
		}
		list = append(list, one)
	}
	return list
}
