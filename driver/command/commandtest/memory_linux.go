package commandtest

import (
	"context"
	"os"
	"testing"

	"aether/sandbox"
)

// LeastMemory: with the least limit on memory that a driver accepts, it works.
func LeastMemory(t *testing.T, driver sandbox.Driver) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user has no cgroups to limit memory by")
	}
	t.Cleanup(func() {
		if err := driver.(sandbox.Closer).Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	const step = 8 << 20
	size, instance := int64(step), sandbox.Instance(nil)
	for ; instance == nil; size += step {
		made, err := driver.Create(t.Context(), sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: size}})
		if sandbox.ClassOf(err) == sandbox.Unsupported {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		instance = made
	}
	t.Logf("%d MiB", (size-step)>>20)
	for range 5 {
		if out, status := Sh(t, instance, "cat /etc/passwd | grep -c root"); status.Code != 0 {
			t.Errorf("%s, %+v", out, status)
		}
	}
}
