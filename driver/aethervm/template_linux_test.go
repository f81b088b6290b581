package aethervm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/driver/vmm"
	"aether/guest/pid1"
	"aether/sandbox"
)

// TestMachinesOfATemplate: machines that start at the same time have nothing in common but the
// template that they go on from, and none of them can change that.
func TestMachinesOfATemplate(t *testing.T) {
	d := newDriver(t)
	const count = 3
	var made [count]sandbox.Instance
	var work sync.WaitGroup
	for n := range count {
		work.Go(func() {
			var err error
			if made[n], err = d.Create(t.Context(), specOf(fmt.Sprint("machine-", n))); err != nil {
				t.Error(err)
			}
		})
	}
	if work.Wait(); t.Failed() {
		return
	}
	seen := map[string]int{}
	for n, i := range made {
		for _, number := range strings.Fields(run(t, i, "cat /proc/sys/kernel/random/uuid /proc/sys/kernel/random/boot_id")) {
			if other, twice := seen[number]; twice {
				t.Errorf("%d and %d draw the same random number", n, other)
			}
			seen[number] = n
		}
		if got := run(t, i, "hostname; ls /tmp; echo own > /tmp/own"); got != fmt.Sprint("machine-", n) {
			t.Errorf("%d is not as it should be: %q", n, got)
		}
		// Whoever reaches a machine cannot make it another's.
		if err := pid1.Configure(t.Context(), i.Dial, pid1.Configuration{Secret: make([]byte, 64), Now: time.Now()}); err == nil {
			t.Errorf("%d was configured twice", n)
		}
	}
	tried := 0
	for pid := range monitors(t, count+2) { // with those that wait
		tried += tryMemory(t, pid)
	}
	if tried < count {
		t.Errorf("the memory of %d machines was tried", tried)
	}
	for _, i := range made {
		if err := i.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// tryMemory tries to change what a monitor maps that a guest may have taken over, and says how
// many files those were.
func tryMemory(t *testing.T, pid int) (tried int) {
	t.Helper()
	maps, err := filepath.Glob(fmt.Sprintf("/proc/%d/map_files/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range maps {
		if target, err := os.Readlink(name); err != nil || !strings.HasPrefix(target, "/memfd:memory") {
			continue
		}
		tried++
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue // nor can it be opened for that
		}
		if _, err := file.WriteAt([]byte("x"), 0); err == nil || file.Truncate(0) == nil {
			t.Error("a monitor can change the memory that others start from")
		}
		file.Close()
	}
	return tried
}

// TestColdMachine: machines can be booted each by itself.
func TestColdMachine(t *testing.T) {
	state := t.TempDir()
	d := newDriverWith(t, func(o *vmm.Options) { o.Cold, o.StateDir = true, state })
	i := create(t, d, "cold")
	if got := run(t, i, "hostname"); got != "cold" {
		t.Errorf("it says %q", got)
	}
	if err := i.Destroy(context.Background()); err != nil {
		t.Error(err)
	}
	if list, err := filepath.Glob(filepath.Join(state, "templates", "[0-9a-f]*")); err != nil || len(list) > 0 {
		t.Errorf("templates: %q, %v", list, err)
	}
}
