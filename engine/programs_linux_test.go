package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/driver/bubblewrap"
	"aether/engine"
	"aether/image"
	"aether/sandbox"
)

// bubblewrapEngine opens an engine in dir whose driver keeps files and no memory. It skips
// where there is no bwrap.
func bubblewrapEngine(t *testing.T, dir string) *engine.Engine {
	t.Helper()
	shared := needSystems(t)
	images := sync.OnceValues(func() (*image.Store, error) { return image.Open(filepath.Join(shared, "bubblewrap-images")) })
	make := func(run string) sandbox.Driver {
		return bubblewrap.New(bubblewrap.Options{RunDir: run, Images: images})
	}
	if report := make(filepath.Join(shared, "probe")).Probe(t.Context()); !report.Usable {
		t.Skipf("no bubblewrap here: %s (%s)", report.Reason, report.Remedy)
	}
	return systemEngineIn(t, dir, bubblewrap.Name, make)
}

// TestFilesOfPrograms: a driver that keeps files alone has snapshots, roll backs and pauses
// of files. Memory is refused, and said to be missing where a sandbox is paused without
// being asked for.
func TestFilesOfPrograms(t *testing.T) {
	dir := openDir(t)
	e := bubblewrapEngine(t, dir)
	id := create(t, e, alice, engine.CreateRequest{Keep: true}).ID
	sh(t, e, alice, id, "echo before > /tmp/file")
	s := snapshot(t, e, id, engine.SnapshotRequest{Fidelity: sandbox.Filesystem})
	_, err := e.Snapshot(t.Context(), alice, id, engine.SnapshotRequest{})
	wantClass(t, err, sandbox.Unsupported)
	_, err = e.Pause(t.Context(), alice, id, "")
	wantClass(t, err, sandbox.Unsupported)
	sh(t, e, alice, id, "echo after > /tmp/file")

	again := create(t, e, alice, engine.CreateRequest{Snapshot: s.ID, Timeout: time.Hour, Then: engine.ThenPause})
	if got := sh(t, e, alice, again.ID, "cat /tmp/file"); got != "before" {
		t.Errorf("the restored one has %q", got)
	}
	if _, err := e.Rollback(t.Context(), alice, id, engine.RollbackRequest{Snapshot: s.ID}); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, e, alice, id, "cat /tmp/file; echo later > /tmp/file"); got != "before" {
		t.Errorf("rolled back it has %q", got)
	}
	if _, err := e.SetTimeout(t.Context(), alice, again.ID, time.Millisecond, engine.ThenPause); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return pausedWithout(t, e, again.ID) }) {
		t.Error("the end of its time did not keep its files")
	}
	if _, err := e.SetTimeout(t.Context(), alice, again.ID, time.Hour, engine.ThenPause); err != nil { // of what is resumed
		t.Fatal(err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	e = bubblewrapEngine(t, dir)
	if got := sh(t, e, alice, id, "cat /tmp/file"); got != "later" {
		t.Errorf("in the next engine it has %q", got)
	}
	if _, err := e.Resume(t.Context(), alice, again.ID, ""); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, e, alice, again.ID, "cat /tmp/file"); got != "before" {
		t.Errorf("resumed it has %q", got)
	}
	if third := create(t, e, alice, engine.CreateRequest{Snapshot: s.ID}); sh(t, e, alice, third.ID, "cat /tmp/file") != "before" {
		t.Error("the snapshot is not what it was")
	}
}

// pausedWithout says whether a sandbox is paused with its files alone, and why.
func pausedWithout(t *testing.T, e *engine.Engine, id string) bool {
	t.Helper()
	s, err := e.Get(t.Context(), alice, id)
	if err != nil {
		t.Fatal(err)
	}
	return s.State == engine.Paused && s.Fidelity == sandbox.Filesystem && strings.Contains(s.Reason, "not its memory")
}

// openDir is a directory that others pass through.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}
