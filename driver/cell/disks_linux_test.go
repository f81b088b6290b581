package cell

import (
	"os"
	"path/filepath"
	"testing"

	"aether/internal/host/storedir"
)

func TestReapRemovesTheDisksOfDeadPrograms(t *testing.T) {
	root := filepath.Join(t.TempDir(), "cells")
	if err := storedir.Prepare(root); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dead", "alive"} {
		if err := os.MkdirAll(filepath.Join(root, name, "cell", "u"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "dead"+lockSuffix), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(root, "dead", "cell"), 0); err != nil {
		t.Fatal(err)
	}
	lock, err := storedir.Try(filepath.Join(root, "alive"+lockSuffix))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	count, err := (&disks{root: root}).reap()
	if err != nil || count != 1 {
		t.Fatalf("reaped %d, error %v", count, err)
	}
	if _, err := os.Stat(filepath.Join(root, "dead")); !os.IsNotExist(err) {
		t.Errorf("the dead program's disk: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "alive")); err != nil {
		t.Errorf("the living program's disk: %v", err)
	}
}
