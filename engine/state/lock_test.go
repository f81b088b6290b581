package state

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"aether/internal/host/storedir"
	"aether/sandbox"
)

// TestLockOfTheDead: what is left of a program that was killed is waited for, and one that
// lives is not.
func TestLockOfTheDead(t *testing.T) {
	before := dyingTime
	t.Cleanup(func() { dyingTime = before })
	dyingTime = 2 * time.Minute // half of which no host stands still for
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		holder   int
		released time.Duration // long after it is given up, or before the waiting ends
		want     sandbox.Class
	}{"dead": {ended.Process.Pid, 100 * time.Millisecond, 0}, "alive": {os.Getpid(), dyingTime / 2, sandbox.Conflict}} {
		dir := t.TempDir()
		path := filepath.Join(dir, lockName)
		lock, err := storedir.Try(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strconv.Itoa(c.holder)), 0o600); err != nil {
			t.Fatal(err)
		}
		released := time.AfterFunc(c.released, func() { _ = lock.Release() })
		d, err := Open(dir, slog.New(slog.DiscardHandler))
		if c.want == 0 && err != nil || c.want != 0 && sandbox.ClassOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		if c.want != 0 && !released.Stop() {
			t.Errorf("%s: it was waited for", name)
		}
		if err == nil {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
