package command

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"aether/internal/host/spawn"
)

// TestVersionWhileThreadsEnd asks for versions while threads come and go, any of which may
// be one that has started a program before.
func TestVersionWhileThreadsEnd(t *testing.T) {
	var asked sync.WaitGroup
	for range 50 {
		asked.Go(func() {
			if line, err := FirstLine(t.Context(), "/bin/sh", "-c", "sleep 2; echo 1.0"); line != "1.0" || err != nil {
				t.Errorf("%q, %v", line, err)
			}
		})
	}
	for range 2000 {
		thread, err := spawn.NewThread(func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		thread.Close()
	}
	asked.Wait()
}

// TestEndlessVersion asks a program for its version that never stops talking.
func TestEndlessVersion(t *testing.T) {
	program := filepath.Join(t.TempDir(), "endless")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nhead -c 512M /dev/zero\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	line, err := FirstLine(t.Context(), program)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err == nil || len(line) > maxVersion || took > 16<<20 {
		t.Errorf("%d bytes and %d MiB, %v", len(line), took>>20, err)
	}
}
