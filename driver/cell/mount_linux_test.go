package cell_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"aether/sandbox"
)

// shared is a host directory that the user of a cell owns, with a file in it.
func shared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !ordinary() {
		for _, name := range []string{dir, file} {
			if err := os.Chown(name, 1000, 1000); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// mounted makes a cell with mounts, or skips where the host's file system cannot
// be shown with a cell's ids.
func mounted(t *testing.T, mounts ...sandbox.Mount) sandbox.Instance {
	t.Helper()
	driver, _ := newDriver(t)
	instance, err := driver.Create(t.Context(), sandbox.Spec{Mounts: mounts})
	if sandbox.ClassOf(err) == sandbox.Unavailable {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { destroy(t, instance) })
	return instance
}

func TestReadOnlyMount(t *testing.T) {
	dir := shared(t)
	instance := mounted(t, sandbox.Mount{Source: dir, Target: "/mnt/a/deep/place"})
	got := sh(t, instance, "cd /mnt/a/deep/place; cat file; echo; stat -c %u:%g file; (echo x > new) || echo refused; rm -f file || echo refused")
	if want := "outside\n1000:1000\nrefused\nrefused"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the host's directory has changed: %v, %v", entries, err)
	}
}

func TestWritableMount(t *testing.T) {
	dir := shared(t)
	instance := mounted(t, sandbox.Mount{Source: dir, Target: "/mnt", Writable: true})
	sh(t, instance, "echo inside > /mnt/file; mkdir /mnt/new; touch /mnt/new/empty")
	if text, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(text) != "inside\n" {
		t.Errorf("%q, %v", text, err)
	}
	owner := uint32(1000)
	if ordinary() {
		owner = uint32(os.Geteuid())
	}
	info, err := os.Stat(filepath.Join(dir, "new", "empty"))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Sys().(*syscall.Stat_t).Uid; got != owner {
		t.Errorf("what a cell made belongs to %d, want %d", got, owner)
	}
	destroy(t, instance)
	if _, err := os.Stat(filepath.Join(dir, "new")); err != nil {
		t.Errorf("the cell's end touched the host's directory: %v", err)
	}
}

func TestFileMount(t *testing.T) {
	dir := shared(t)
	file := filepath.Join(dir, "file")
	instance := mounted(t, sandbox.Mount{Source: file, Target: "/home/user/one"}, sandbox.Mount{Source: file, Target: "/etc/passwd.d/two"})
	if got := sh(t, instance, "cat one /etc/passwd.d/two; echo x >> one || echo refused"); got != "outsideoutsiderefused" {
		t.Errorf("got %q", got)
	}
}

func TestMountsAreQuiet(t *testing.T) {
	dir := shared(t)
	instance := mounted(t, sandbox.Mount{Source: dir, Target: "/mnt", Writable: true})
	options := sh(t, instance, "grep ' /mnt ' /proc/self/mountinfo")
	for _, want := range []string{"nosuid", "nodev"} {
		if !strings.Contains(options, want) {
			t.Errorf("%s is not among %q", want, options)
		}
	}
}

// TestMountTargetStaysInside: a link of the image in a target's path must not
// lead the mount to the host.
func TestMountTargetStaysInside(t *testing.T) {
	links, mounts := borrowed(t)
	image, outside := t.TempDir(), t.TempDir()
	links["data"] = outside
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(image, name)); err != nil {
			t.Fatal(err)
		}
	}
	driver, _ := newDriver(t)
	instance, err := driver.Create(t.Context(), sandbox.Spec{Image: image, Command: sandbox.CommandDefaults{User: "1000"},
		Mounts: append(mounts, sandbox.Mount{Source: shared(t), Target: "/data/place"})})
	if err == nil {
		defer destroy(t, instance)
	}
	if entries, readErr := os.ReadDir(outside); readErr != nil || len(entries) > 0 {
		t.Errorf("a mount has left its cell: %v, %v (create: %v)", entries, readErr, err)
	}
}
