package isolation

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"aether/driver/gvisor"
	"aether/driver/vmm/vmmtest"
	"aether/image"
)

// scratch holds what all tests share, and probeProgram is built in it.
var scratch, probeProgram string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "aether-isolation-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = prepare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "isolation:", err)
		return 1
	}
	return m.Run()
}

func prepare(dir string) error {
	scratch, probeProgram = dir, filepath.Join(dir, Name)
	if err := vmmtest.Prepare(dir); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", probeProgram, "aether/cmd/aether-probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	// What `make runsc` made, if nobody says where runsc is.
	built, err := filepath.Abs("../../bin/runsc")
	if err != nil {
		return err
	}
	if _, err := os.Stat(built); err == nil && os.Getenv(gvisor.PathVariable) == "" {
		return os.Setenv(gvisor.PathVariable, built)
	}
	return nil
}

var images = sync.OnceValues(func() (*image.Store, error) { return image.Open(filepath.Join(scratch, "images")) })
