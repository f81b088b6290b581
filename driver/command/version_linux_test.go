package command

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

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
