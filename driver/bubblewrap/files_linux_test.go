package bubblewrap_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"aether/driver/command/commandtest"
	"aether/sandbox"
)

// keep takes the files of a sandbox.
func keep(t *testing.T, instance sandbox.Instance) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := instance.(sandbox.Snapshotter).Snapshot(t.Context(), dir, sandbox.Filesystem); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestBoxFilesCountAsWritten: a sandbox is given no more files than it may write.
func TestBoxFilesCountAsWritten(t *testing.T) {
	needBwrap(t)
	driver := newDriver(t.TempDir())
	source := commandtest.Create(t, driver, sandbox.Spec{})
	commandtest.Sh(t, source, "head -c 24M /dev/urandom > /tmp/file")
	dir := keep(t, source)
	_, err := driver.(sandbox.Restorer).Restore(t.Context(), dir, sandbox.Filesystem, sandbox.Spec{Limits: sandbox.Limits{DiskBytes: 8 << 20}})
	if sandbox.ClassOf(err) != sandbox.Exhausted {
		t.Errorf("%v", err)
	}
	again, err := driver.(sandbox.Restorer).Restore(t.Context(), dir, sandbox.Filesystem, sandbox.Spec{Limits: sandbox.Limits{DiskBytes: 64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	if stats, err := again.Stats(t.Context()); err != nil || stats.DiskBytes == nil || *stats.DiskBytes < 24<<20 {
		t.Errorf("%+v, %v", stats.DiskBytes, err)
	}
}

// TestBoxFilesAroundMounts: what is mounted is neither kept nor changed, also where the
// snapshot has something by the name that it is mounted at.
func TestBoxFilesAroundMounts(t *testing.T) {
	needBwrap(t)
	driver, host := newDriver(t.TempDir()), t.TempDir()
	if err := os.Chmod(host, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(host, "own"), []byte("the host's"), 0o644); err != nil {
		t.Fatal(err)
	}
	mounts := []sandbox.Mount{{Source: host, Target: "/tmp/data"}}
	source := commandtest.Create(t, driver, sandbox.Spec{})
	commandtest.Sh(t, source, "mkdir -m 700 /tmp/data; echo inside > /tmp/data/file; echo inside > /tmp/file")
	again, err := driver.(sandbox.Restorer).Restore(t.Context(), keep(t, source), sandbox.Filesystem, sandbox.Spec{Mounts: mounts})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := commandtest.Sh(t, again, "cat /tmp/data/own /tmp/file; ls /tmp/data"); got != "the host'sinside\nown" {
		t.Errorf("%q", got)
	}
	third, err := driver.(sandbox.Restorer).Restore(t.Context(), keep(t, again), sandbox.Filesystem, sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := commandtest.Sh(t, third, "ls /tmp/data 2>/dev/null; cat /tmp/file"); got != "inside" {
		t.Errorf("what was mounted has left %q", got)
	}
	if info, err := os.Stat(host); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestBoxEndsWhileItsFilesAreKept: nobody waits for a snapshot to be done, and one that is
// not whole leaves nothing.
func TestBoxEndsWhileItsFilesAreKept(t *testing.T) {
	instance, dir := create(t, sandbox.Spec{}), t.TempDir()
	commandtest.Sh(t, instance, "head -c 200M /dev/zero | tr '\\0' x > /tmp/file")
	taken := make(chan error, 1)
	go func() { taken <- instance.(sandbox.Snapshotter).Snapshot(t.Context(), dir, sandbox.Filesystem) }()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			break
		}
	}
	if err := instance.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	err := <-taken
	entries, read := os.ReadDir(dir)
	if read != nil || (err == nil) != (len(entries) > 0) {
		t.Errorf("the snapshot: %v, and left %v, %v", err, entries, read)
	}
}
