package cell_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"aether/internal/host/sysinfo"
	"aether/sandbox"
)

// limitFiles changes how many files this program may have open.
func limitFiles(t *testing.T, most uint64) {
	t.Helper()
	program, err := exec.LookPath("prlimit")
	if err != nil {
		t.Skip("there is no prlimit, of util-linux")
	}
	if out, err := exec.Command(program, fmt.Sprintf("--pid=%d", os.Getpid()), fmt.Sprintf("--nofile=%d:", most)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestOutOfDescriptors makes cells until this program may have no more files open. The
// one too many is refused with the limit's name, and all others are of use.
func TestOutOfDescriptors(t *testing.T) {
	driver, _ := newDriver(t)
	const few = 256
	was := sysinfo.MostFiles()
	limitFiles(t, few)
	t.Cleanup(func() { limitFiles(t, was) })
	var alive []sandbox.Instance
	t.Cleanup(func() {
		for _, cell := range alive {
			destroy(t, cell)
		}
	})
	var refusal error
	for range few {
		cell, err := driver.Create(t.Context(), sandbox.Spec{})
		if err != nil {
			refusal = err
			break
		}
		alive = append(alive, cell)
	}
	if sandbox.ClassOf(refusal) != sandbox.Exhausted || !strings.Contains(refusal.Error(), "ulimit -n") {
		t.Fatalf("after %d cells: %v", len(alive), refusal)
	}
	t.Logf("after %d cells: %v", len(alive), refusal)
	for n, cell := range alive {
		if out := sh(t, cell, "echo works"); out != "works" {
			t.Fatalf("cell %d of %d says %q", n, len(alive), out)
		}
	}
}
