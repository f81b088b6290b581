package gvisor_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"aether/driver/command/commandtest"
	"aether/driver/gvisor"
	"aether/network/networktest"
	"aether/sandbox"
)

func newDriver(dir string) sandbox.Driver { return newGVisor(dir) }

func newGVisor(dir string) *gvisor.Driver {
	return gvisor.New(gvisor.Options{RunDir: dir, StateDir: filepath.Join(dir, "state"), Images: commandtest.Images, Network: networktest.Service()})
}

func TestMain(m *testing.M) { os.Exit(commandtest.Main(m, newDriver, prepare)) }

// prepare takes what `make runsc` made, if nobody says where runsc is, to where an
// ordinary user reaches it too.
func prepare(dir string) error {
	if os.Getenv(gvisor.PathVariable) != "" {
		return nil
	}
	built, err := os.ReadFile("../../bin/runsc")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it may be in PATH
	}
	if err != nil {
		return err
	}
	program := filepath.Join(dir, "runsc")
	if err := os.WriteFile(program, built, 0o755); err != nil {
		return err
	}
	return os.Setenv(gvisor.PathVariable, program)
}

var probed = sync.OnceValues(func() (report sandbox.Report, err error) {
	dir, err := os.MkdirTemp("", "aether-gvisor-")
	if err != nil {
		return report, err
	}
	report = newDriver(dir).Probe(context.Background())
	return report, os.RemoveAll(dir)
})

// need skips where there is no runsc.
func need(t *testing.T) {
	t.Helper()
	report, err := probed()
	if err != nil {
		t.Fatal(err)
	}
	if report.Version == "" {
		t.Skipf("%s (%s)", report.Reason, report.Remedy)
	}
}
