package cell_test

import (
	"strings"
	"syscall"
	"testing"

	"aether/sandbox"
)

// TestOutOfDescriptors makes cells until this program may have no more files open. The
// one too many is refused with the limit's name, and all others are of use.
func TestOutOfDescriptors(t *testing.T) {
	driver, _ := newDriver(t)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	const few = 256
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: few, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
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
