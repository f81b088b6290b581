package bubblewrap_test

import (
	"os"
	"testing"

	"aether/driver/bubblewrap"
	"aether/driver/drivertest"
	"aether/driver/launched/launchedtest"
	"aether/guest/inside"
	"aether/sandbox"
)

func newDriver(dir string) sandbox.Driver {
	return bubblewrap.New(bubblewrap.Options{RunDir: dir, Images: launchedtest.Images})
}

func TestMain(m *testing.M) { os.Exit(launchedtest.Main(m, newDriver, nil)) }

// needBwrap skips where the system is not installed.
func needBwrap(t *testing.T) {
	t.Helper()
	if report := newDriver(t.TempDir()).Probe(t.Context()); report.Version == "" {
		t.Skipf("%s (%s)", report.Reason, report.Remedy)
	}
}

func TestConformance(t *testing.T) {
	needBwrap(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: inside.Overhead})
}

func TestAgainAsOrdinaryUser(t *testing.T) {
	needBwrap(t)
	launchedtest.AsOrdinaryUser(t, "^(TestConformance|TestBox.*)$")
}
