//go:build unix

package storedir

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestAlone: whoever is alone is, and shares again afterwards.
func TestAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	ours, err := Share(path)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := Share(path); err != nil || same != ours {
		t.Errorf("a second use of the same program: %v", err)
	}
	ran := false
	if err := ours.Alone(t.Context(), func() error { ran = true; return nil }); err != nil || !ran {
		t.Fatalf("ran is %v: %v", ran, err)
	}
	other, err := os.Open(path) // as another program has it
	if err != nil {
		t.Fatal(err)
	}
	if err := flock(other, syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("it is not shared any more: %v", err)
	}
	if err := flock(other, syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	if err := ours.Alone(t.Context(), func() error { t.Error("not alone"); return nil }); !errors.Is(err, ErrHeld) {
		t.Errorf("got %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	if err := ours.Alone(t.Context(), func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}

// TestShareAgain: a directory that was removed and made anew is another.
func TestShareAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	first, err := Share(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if second, err := Share(path); err != nil || second == first || !stillNamed(second.file, path) {
		t.Errorf("%v", err)
	}
}
