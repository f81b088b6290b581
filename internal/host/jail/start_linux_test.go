package jail

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aether/internal/unprivtest"
)

// variable names the program in the jail for tests that are run again.
const variable = "AETHER_TEST_JAILED"

// found builds the program that says what it finds: one that needs no other file, as this
// one does with the race detector.
func found(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "found")
	build := exec.Command("go", "build", "-o", path, "./testdata/found")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestJail: a program finds nothing there, and can do nothing.
func TestJail(t *testing.T) {
	exe, err := os.Open(found(t))
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := Start(Program{Exe: exe, Args: []string{"jailed"}, Files: []*os.File{w, w, w}, ID: 64321})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(bufio.NewReader(r))
	if err != nil {
		t.Fatal(err)
	}
	want := "root 0 <nil>\nwrite false\npid 1\nuser false\nmount false\nchroot false\nkill false\ncore false\ndescriptor 3 false\n"
	if got := string(text); got != want {
		t.Errorf("found:\n%s\nwant:\n%s", strings.TrimSpace(got), want)
	}
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// TestJailOfAnOrdinaryUser is TestJail again.
func TestJailOfAnOrdinaryUser(t *testing.T) {
	unprivtest.AsOrdinaryUser(t, []string{"-test.run=^TestJail$"}, variable+"="+found(t))
}

// TestJailOfARootWithoutRights is TestJail again: it is the kernel's user 0 of the host that
// is in the jail then, and inside another.
func TestJailOfARootWithoutRights(t *testing.T) {
	unprivtest.AsRootWithoutRights(t, []string{"-test.run=^TestJail$"}, variable+"="+found(t))
}
