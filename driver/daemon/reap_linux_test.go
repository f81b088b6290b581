package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"aether/sandbox"
)

// TestGraveyard: containers of the dead of one directory on this host are known,
// and no others.
func TestGraveyard(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	living, err := newOwner(dir)
	if err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(dir, "dead.owner")
	if err := os.WriteFile(dead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g := OpenGraveyard(dir)
	if got := g.Locks(); !slices.Equal(got, []string{dead}) {
		t.Errorf("%q are dead", got)
	}
	for label, want := range map[string]bool{
		living.Label:      false,
		host + ":" + dead: true,
		host + ":" + filepath.Join(dir, "reaped-before.owner"): true,
		host + ":" + filepath.Join(dir, "no-lock"):             false,
		host + ":" + filepath.Join(dir, "below", "x.owner"):    false,
		host + ":" + filepath.Join(elsewhere, "x.owner"):       false,
		"not-" + host + ":" + dead:                             false,
		host:                                                   false,
		"":                                                     false,
	} {
		if got := g.Has(label); got != want {
			t.Errorf("%q: %v", label, got)
		}
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if left := locksIn(dir); !slices.Equal(left, []string{living.Path}) {
		t.Errorf("%q are left", left)
	}
	if err := living.Close(); err != nil || len(locksIn(dir)) > 0 {
		t.Errorf("%q are left, %v", locksIn(dir), err)
	}
}

// TestReapWithoutDaemon: it is a failure only for those who have used the daemon.
func TestReapWithoutDaemon(t *testing.T) {
	down := func() error { return &sandbox.Error{Class: sandbox.Unavailable} }
	reap := func(string) (int, error) { t.Error("somebody was met"); return 0, nil }
	dir := t.TempDir()
	for _, unused := range []string{dir, filepath.Join(dir, "none")} {
		if n, err := Reap(unused, down, reap); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "dead.owner"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Reap(dir, down, reap); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("%v", err)
	}
}
