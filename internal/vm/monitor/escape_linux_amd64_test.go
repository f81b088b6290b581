package monitor

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"aether/internal/host/jail"
)

// TestEscape: a guest that has taken its monitor over can do none of what would lead
// further, in the jail and under the list of system calls that monitors are under.
func TestEscape(t *testing.T) {
	path := filepath.Join(t.TempDir(), "escape")
	build := exec.Command("go", "build", "-o", path, "./testdata/escape")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	exe, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := jail.Start(jail.Program{Exe: exe, Args: []string{"escape"}, Files: []*os.File{w, w, w}, ID: 64323, Alone: true})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(r)
	if err != nil || string(said) != "tried 39\n" {
		t.Errorf("%s, %v", said, err)
	}
	if status, err := p.Wait(); err != nil || status.Code != 0 || status.Signal != 0 {
		t.Errorf("it ended with %+v, %v", status, err)
	}
}
