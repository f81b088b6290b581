package incus_test

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"aether/driver/daemon/daemontest"
	"aether/driver/incus"
	"aether/guest"
	"aether/sandbox"
)

// read reads a file of a sandbox that may have no programs.
func read(t *testing.T, instance sandbox.Instance, name string) string {
	t.Helper()
	client := guest.NewClient(instance.Dial, guest.ClientOptions{})
	defer client.Close()
	file, err := client.Read(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDaemonGoesAway: sandboxes do not need their daemon to go on; what could not
// be removed without it is told, and removed later.
func TestDaemonGoesAway(t *testing.T) {
	daemontest.Need(t)
	runtime.LockOSThread() // with which the daemon dies
	defer runtime.UnlockOSThread()
	dir := t.TempDir()
	for _, passed := range []string{dir, filepath.Dir(dir)} { // by the container's root, who is nobody here
		if err := os.Chmod(passed, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(dir, "incus")
	d, err := startDaemon(home)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { d.stop() }()
	driver := incus.New(incus.Options{RunDir: filepath.Join(dir, "run"), Socket: d.socket, Images: daemontest.Images})
	var boxes []sandbox.Instance
	for range 2 {
		box, err := driver.Create(t.Context(), sandbox.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		boxes = append(boxes, box)
	}
	d.End(endAlone)
	sh(t, boxes[0], "true")
	if _, err := driver.Create(t.Context(), sandbox.Spec{}); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("create: %v", err)
	}
	if err := boxes[0].Destroy(t.Context()); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("destroy: %v", err)
	}
	if d, err = startDaemon(home); err != nil {
		t.Fatal(err)
	}
	sh(t, boxes[1], "true")
	if err := boxes[1].Destroy(t.Context()); err != nil {
		t.Errorf("with the daemon back: %v", err)
	}
	if err := driver.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n, err := driver.Reap(t.Context()); n != 1 || err != nil {
		t.Errorf("%d were reaped (%v)", n, err)
	}
}
