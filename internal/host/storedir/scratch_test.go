package storedir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestScratch(t *testing.T) {
	parent := t.TempDir()
	dir, release, err := Scratch(t.Context(), parent)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if count, err := ReapScratch(parent); count != 0 || err != nil {
		t.Errorf("%d of a living maker were removed (%v)", count, err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	wantEmpty(t, parent)
}

// TestScratchOfTheDead: what a killed maker leaves is a directory and a lock file
// that nobody holds.
func TestScratchOfTheDead(t *testing.T) {
	parent := t.TempDir()
	if err := os.WriteFile(filepath.Join(parent, "1"+scratchLock), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(parent, "1", "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	if count, err := ReapScratch(parent); count != 1 || err != nil {
		t.Errorf("%d, %v", count, err)
	}
	wantEmpty(t, parent)
}

// One at a time has a name, and finds nothing of another, also not of a dead one.
func TestScratchNamed(t *testing.T) {
	parent := t.TempDir()
	dead := filepath.Join(parent, "name", "below")
	if err := os.MkdirAll(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, release, err := ScratchNamed(t.Context(), parent, "name")
	if err != nil || dir != filepath.Dir(dead) {
		t.Fatal(dir, err)
	}
	wantEmpty(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := ScratchNamed(ctx, parent, "name"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second one: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	wantEmpty(t, parent)
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left (%v)", left, err)
	}
}
