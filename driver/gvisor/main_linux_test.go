package gvisor_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"aether/driver/drivertest"
	"aether/driver/gvisor"
	"aether/guest/inside/insidetest"
	"aether/image"
	"aether/sandbox"
)

// storeVariable tells a program that plays a part where the images are.
const storeVariable = "AETHER_GVISOR_TEST_IMAGES"

func newDriver(dir string) sandbox.Driver { return newGVisor(dir) }

func newGVisor(dir string) *gvisor.Driver {
	return gvisor.New(gvisor.Options{RunDir: dir, StateDir: filepath.Join(dir, "state"),
		Images: func() (*image.Store, error) { return image.Open(os.Getenv(storeVariable)) }})
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if played, code := drivertest.Play(newDriver); played {
		return code
	}
	dir, err := os.MkdirTemp("", "aether-gvisor-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o711)
	}
	if err == nil {
		err = insidetest.Build(dir)
	}
	if err == nil {
		err = prepare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// prepare says where the images are and, if nobody says where runsc is, takes what
// `make runsc` made, to where an ordinary user reaches it too.
func prepare(dir string) error {
	if os.Getenv(storeVariable) == "" {
		if err := os.Setenv(storeVariable, filepath.Join(dir, "images")); err != nil {
			return err
		}
	}
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
