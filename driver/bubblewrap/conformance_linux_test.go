package bubblewrap_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"aether/driver/bubblewrap"
	"aether/driver/drivertest"
	"aether/guest/inside"
	"aether/guest/inside/insidetest"
	"aether/image"
	"aether/sandbox"
)

// storeVariable tells a program that plays a part where the images are.
const storeVariable = "AETHER_BUBBLEWRAP_TEST_IMAGES"

func newDriver(dir string) sandbox.Driver {
	return bubblewrap.New(bubblewrap.Options{RunDir: dir, Images: func() (*image.Store, error) { return image.Open(os.Getenv(storeVariable)) }})
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if played, code := drivertest.Play(newDriver); played {
		return code
	}
	dir, err := os.MkdirTemp("", "aether-bubblewrap-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o711)
	}
	if err == nil {
		err = insidetest.Build(dir)
	}
	if err == nil && os.Getenv(storeVariable) == "" {
		err = os.Setenv(storeVariable, filepath.Join(dir, "images"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// needBwrap skips where the system is not installed.
func needBwrap(t *testing.T) {
	t.Helper()
	report := newDriver(t.TempDir()).Probe(t.Context())
	if report.Version == "" {
		t.Skipf("%s (%s)", report.Reason, report.Remedy)
	}
}

func TestConformance(t *testing.T) {
	needBwrap(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: inside.Overhead})
}
