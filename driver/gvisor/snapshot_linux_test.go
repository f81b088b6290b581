package gvisor_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/driver/command/commandtest"
	"aether/driver/gvisor"
	"aether/sandbox"
)

// kept makes a sandbox and a snapshot of it.
func kept(t *testing.T, spec sandbox.Spec, scripts ...string) (*gvisor.Driver, sandbox.Instance, string) {
	t.Helper()
	need(t)
	driver := newGVisor(t.TempDir())
	instance := commandtest.Create(t, driver, spec)
	for _, script := range scripts {
		if out, status := commandtest.Sh(t, instance, script); status.Code != 0 {
			t.Fatalf("%s: %s", script, out)
		}
	}
	dir := t.TempDir()
	if err := instance.(sandbox.Snapshotter).Snapshot(t.Context(), dir, sandbox.Checkpoint); err != nil {
		t.Fatal(err)
	}
	return driver, instance, dir
}

func restore(t *testing.T, driver *gvisor.Driver, dir string, spec sandbox.Spec) sandbox.Instance {
	t.Helper()
	instance, err := driver.Restore(t.Context(), dir, sandbox.Checkpoint, spec)
	if err != nil {
		t.Fatal(err)
	}
	return instance
}

// TestBoxWakesInThePresent: time and random numbers are not the snapshot's.
func TestBoxWakesInThePresent(t *testing.T) {
	driver, _, dir := kept(t, sandbox.Spec{})
	time.Sleep(2 * time.Second)
	first, second := restore(t, driver, dir, sandbox.Spec{}), restore(t, driver, dir, sandbox.Spec{})
	one, _ := commandtest.Sh(t, first, "head -c 16 /dev/urandom | od -An -tx1")
	other, _ := commandtest.Sh(t, second, "head -c 16 /dev/urandom | od -An -tx1")
	if one == other || one == "" {
		t.Errorf("both have the random numbers %q", one)
	}
	before := time.Now().Add(-time.Second)
	text, _ := commandtest.Sh(t, first, "date -u +%Y-%m-%dT%H:%M:%SZ")
	inside, err := time.Parse(time.RFC3339, text)
	if err != nil || inside.Before(before.Add(-time.Second)) || inside.After(time.Now().Add(time.Second)) {
		t.Errorf("it is %v inside, and %v outside (%v)", inside, time.Now(), err)
	}
}

// TestBoxOfARestoredBox: snapshots can be taken of what was restored.
func TestBoxOfARestoredBox(t *testing.T) {
	driver, _, dir := kept(t, sandbox.Spec{ID: "first"}, "echo one > /tmp/state")
	again := restore(t, driver, dir, sandbox.Spec{ID: "second"})
	commandtest.Sh(t, again, "echo two >> /tmp/state")
	next := t.TempDir()
	if err := again.(sandbox.Snapshotter).Snapshot(t.Context(), next, sandbox.Checkpoint); err != nil {
		t.Fatal(err)
	}
	third := restore(t, driver, next, sandbox.Spec{})
	if got, _ := commandtest.Sh(t, third, "cat /tmp/state; hostname"); got != "one\ntwo\nfirst" {
		t.Errorf("got %q", got)
	}
}

// TestBoxPausedIsKept: a snapshot of a paused sandbox leaves it paused.
func TestBoxPausedIsKept(t *testing.T) {
	need(t)
	driver := newGVisor(t.TempDir())
	instance := commandtest.Create(t, driver, sandbox.Spec{})
	commandtest.Sh(t, instance, "(while :; do date +%s%N > /tmp/now; done) >/dev/null 2>&1 &")
	pauser := instance.(sandbox.Pauser)
	if err := pauser.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := instance.(sandbox.Snapshotter).Snapshot(t.Context(), dir, sandbox.Checkpoint); err != nil {
		t.Fatal(err)
	}
	before, err := instance.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	after, err := instance.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if before.CPUTime != nil && *after.CPUTime-*before.CPUTime > 100*time.Millisecond {
		t.Errorf("it runs: %v, then %v", *before.CPUTime, *after.CPUTime)
	}
	if err := pauser.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, status := commandtest.Sh(t, restore(t, driver, dir, sandbox.Spec{}), "until test -s /tmp/now; do :; done"); status.Code != 0 {
		t.Error("the restored sandbox does not answer")
	}
}

func TestBoxMountsAreThereAgain(t *testing.T) {
	shared := t.TempDir()
	if err := os.WriteFile(filepath.Join(shared, "file"), []byte("shared"), 0o644); err != nil {
		t.Fatal(err)
	}
	driver, _, dir := kept(t, sandbox.Spec{Mounts: []sandbox.Mount{{Source: shared, Target: "/srv/shared"}}})
	if got, _ := commandtest.Sh(t, restore(t, driver, dir, sandbox.Spec{}), "cat /srv/shared/file"); got != "shared" {
		t.Errorf("got %q", got)
	}
}

// TestBoxRestoreRefuses what the snapshot is not.
func TestBoxRestoreRefuses(t *testing.T) {
	driver, _, dir := kept(t, sandbox.Spec{})
	for field, spec := range map[string]sandbox.Spec{
		"image":                 {Image: "/elsewhere"},
		"mounts":                {Mounts: []sandbox.Mount{{Source: "/usr", Target: "/mnt"}}},
		"limits.disk":           {Limits: sandbox.Limits{DiskBytes: 1 << 20}},
		"limits.disk_read_rate": {Limits: sandbox.Limits{DiskReadRate: 1 << 20}},
		"limits.memory":         {Limits: sandbox.Limits{MemoryBytes: 1 << 30}},
		"network.mode":          {Network: sandbox.Network{Mode: sandbox.HostNetwork}},
		"id":                    {ID: "../bad"},
	} {
		_, err := driver.Restore(t.Context(), dir, sandbox.Checkpoint, spec)
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestBoxDamagedSnapshots(t *testing.T) {
	driver, _, dir := kept(t, sandbox.Spec{})
	for name, damage := range map[string]func(string) error{
		"cut off":     func(dir string) error { return os.Truncate(filepath.Join(dir, "checkpoint", "pages.img"), 4096) },
		"missing":     func(dir string) error { return os.Remove(filepath.Join(dir, "checkpoint", "checkpoint.img")) },
		"files":       func(dir string) error { return os.Truncate(filepath.Join(dir, "files", "multitar.img"), 1) },
		"no manifest": func(dir string) error { return os.WriteFile(filepath.Join(dir, "manifest.json"), []byte("{"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			other := t.TempDir()
			if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			if err := damage(other); err != nil {
				t.Fatal(err)
			}
			give := sandbox.Checkpoint
			if name == "files" {
				give = sandbox.Filesystem
			}
			if _, err := driver.Restore(t.Context(), other, give, sandbox.Spec{}); sandbox.ClassOf(err) != sandbox.Invalid {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestBoxFilesAlone: a sandbox of files has limits and a network of its own, the
// defaults of commands that its source had, and can be kept again.
func TestBoxFilesAlone(t *testing.T) {
	need(t)
	driver := newGVisor(t.TempDir())
	source := commandtest.Create(t, driver, sandbox.Spec{Command: sandbox.CommandDefaults{Env: map[string]string{"KEPT": "yes"}, WorkDir: "/srv"}})
	commandtest.Sh(t, source, "echo one > /tmp/state; echo shared > /dev/shm/state")
	dir := t.TempDir()
	keep := func(i sandbox.Instance, dir string) {
		t.Helper()
		if err := i.(sandbox.Snapshotter).Snapshot(t.Context(), dir, sandbox.Filesystem); err != nil {
			t.Fatal(err)
		}
	}
	keep(source, dir)
	if _, err := os.Stat(filepath.Join(dir, "checkpoint")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a snapshot of files has memory: %v", err)
	}
	again, err := driver.Restore(t.Context(), dir, sandbox.Filesystem, sandbox.Spec{ID: "again", Limits: sandbox.Limits{DiskBytes: 64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	const look = "cat /tmp/state; hostname; echo $KEPT; pwd; ls /dev/shm | wc -l; df -k / | tail -1 | tr -s ' ' | cut -d' ' -f2"
	if got, _ := commandtest.Sh(t, again, look); got != "one\nagain\nyes\n/srv\n0\n49152" {
		t.Errorf("got %q", got)
	}
	commandtest.Sh(t, again, "echo two >> /tmp/state")
	next := t.TempDir()
	keep(again, next)
	third, err := driver.Restore(t.Context(), next, sandbox.Filesystem, sandbox.Spec{Image: sandbox.HostImage})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := commandtest.Sh(t, third, "cat /tmp/state; echo $KEPT"); got != "one\ntwo\nyes" {
		t.Errorf("got %q", got)
	}
}

// TestBoxFilesOfAnotherRunsc are refused with both versions.
func TestBoxFilesOfAnotherRunsc(t *testing.T) {
	driver, _, dir := kept(t, sandbox.Spec{})
	name := filepath.Join(dir, "files", "fscheckpoint.json")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const key = `"runsc_version":"`
	other := []byte(strings.Replace(string(text), key+"v", key+"w", 1))
	if bytes.Equal(text, other) {
		t.Fatalf("%s has no version", text)
	}
	if err := os.WriteFile(name, other, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = driver.Restore(t.Context(), dir, sandbox.Filesystem, sandbox.Spec{})
	if sandbox.ClassOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(), "does not match current runsc version") {
		t.Errorf("%v", err)
	}
}

// TestBoxHolesAreNoMemory: what runsc writes of a file is its data, so that a large file
// of holes neither ends the sandbox nor fills the snapshot.
func TestBoxHolesAreNoMemory(t *testing.T) {
	need(t)
	driver := newGVisor(t.TempDir())
	source := commandtest.Create(t, driver, sandbox.Spec{})
	commandtest.Sh(t, source, "truncate -s 64G /tmp/hole")
	dir := t.TempDir()
	if err := source.(sandbox.Snapshotter).Snapshot(t.Context(), dir, sandbox.Filesystem); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "files", "pages.img")); err != nil || info.Size() > 64<<20 {
		t.Errorf("%v, %v", info, err)
	}
	again, err := driver.Restore(t.Context(), dir, sandbox.Filesystem, sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := commandtest.Sh(t, again, "stat -c %s /tmp/hole"); got != "68719476736" {
		t.Errorf("got %q", got)
	}
}

// TestBoxFailedSnapshot leaves nothing, and the sandbox as it was.
func TestBoxFailedSnapshot(t *testing.T) {
	need(t)
	instance := commandtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{})
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := instance.(sandbox.Snapshotter).Snapshot(ctx, dir, sandbox.Checkpoint); err == nil {
		t.Error("it was taken")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left (%v)", left, err)
	}
	if _, status := commandtest.Sh(t, instance, "true"); status.Code != 0 {
		t.Error("the sandbox does not answer")
	}
}
