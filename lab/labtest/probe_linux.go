package labtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"aether/lab/isolation"
)

// Probe builds the program that looks out of sandboxes, and names it until the test ends.
func Probe(t *testing.T) {
	t.Helper()
	program := filepath.Join(t.TempDir(), isolation.Name)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "aether/cmd/aether-probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv(isolation.PathVariable, program)
}
