package drivertest

import (
	"os"
	"path/filepath"
	"testing"

	"aether/guest"
	"aether/sandbox"
)

// connectTo is a command that connects to a port of the loopback.
func connectTo(port string) guest.Cmd {
	return guest.Cmd{Path: "bash", Args: []string{"-c", "exec 3<>/dev/tcp/127.0.0.1/" + port}}
}

func (s *suite) mounts() []test {
	return []test{{"read-only", s.readOnlyMount}, {"writable", s.writableMount}, {"file", s.fileMount}, {"links stay inside", s.linkedTarget}}
}

// shared is a directory of the host, open to everybody, with a file in it.
func shared(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "shared")
	for _, step := range []func() error{
		func() error { return os.Mkdir(dir, 0o777) },
		func() error { return os.Chmod(dir, 0o777) },
		func() error { return os.WriteFile(filepath.Join(dir, "file"), []byte("outside"), 0o666) },
		func() error { return os.Chmod(filepath.Join(dir, "file"), 0o666) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (s *suite) readOnlyMount(t *testing.T) {
	dir := shared(t)
	b := s.offered(t, sandbox.Spec{Mounts: []sandbox.Mount{{Source: dir, Target: "/mnt/a/deep/place"}}})
	got := b.sh(t, "cd /mnt/a/deep/place; cat file; echo; (echo x > new) 2>/dev/null || echo refused; (echo x > file) 2>/dev/null || echo refused")
	if want := "outside\nrefused\nrefused"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the host's directory has changed: %v, %v", entries, err)
	}
}

func (s *suite) writableMount(t *testing.T) {
	dir := shared(t)
	b := s.offered(t, sandbox.Spec{Mounts: []sandbox.Mount{{Source: dir, Target: "/mnt", Writable: true}}})
	b.sh(t, "echo inside > /mnt/file; mkdir /mnt/new; echo 1 > /mnt/new/one")
	if text, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(text) != "inside\n" {
		t.Errorf("%q, %v", text, err)
	}
	b.destroy(t)
	if _, err := os.Stat(filepath.Join(dir, "new", "one")); err != nil {
		t.Errorf("the sandbox's end touched the host's directory: %v", err)
	}
}

func (s *suite) fileMount(t *testing.T) {
	file := filepath.Join(shared(t), "file")
	b := s.offered(t, sandbox.Spec{Mounts: []sandbox.Mount{{Source: file, Target: "/srv/one"}}})
	if got := b.sh(t, "cat /srv/one; (echo x >> /srv/one) 2>/dev/null || echo refused"); got != "outsiderefused" {
		t.Errorf("got %q", got)
	}
}

// linkedTarget: a link of the image in a target's path leads nowhere else.
func (s *suite) linkedTarget(t *testing.T) {
	outside, image := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(image, "data")); err != nil {
		t.Fatal(err)
	}
	b, err := s.try(t, sandbox.Spec{Image: image, Mounts: []sandbox.Mount{{Source: shared(t), Target: "/data/place"}}})
	if entries, readErr := os.ReadDir(outside); readErr != nil || len(entries) > 0 {
		t.Errorf("a mount has left its sandbox: %v, %v (create: %v)", entries, readErr, err)
	}
	_ = b
}
