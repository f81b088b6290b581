package lifecycle

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestFirstProgram(t *testing.T) {
	out, err := exec.Command(install(t, firstProgram())).Output()
	if err != nil || string(out) != string(message) {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestStayProgram(t *testing.T) {
	cmd := exec.Command(install(t, stayProgram()))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := io.ReadFull(out, b[:]); err != nil || b[0] != message {
		t.Errorf("got %q, %v", b, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Errorf("it did not stay: %v", err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("it did not stay: %v", err)
	}
}

func install(t *testing.T, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, content, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}
