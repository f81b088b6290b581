package bubblewrap_test

import (
	"os"
	"testing"

	"aether/driver/bubblewrap"
	"aether/driver/command/commandtest"
	"aether/driver/drivertest"
	"aether/driver/guestagent"
	"aether/network/networktest"
	"aether/sandbox"
)

func newDriver(dir string) sandbox.Driver {
	return bubblewrap.New(bubblewrap.Options{RunDir: dir, Images: commandtest.Images, Network: networktest.Service()})
}

func TestMain(m *testing.M) { os.Exit(commandtest.Main(m, newDriver, nil)) }

// needBwrap skips where the system is not installed.
func needBwrap(t *testing.T) {
	t.Helper()
	if report := newDriver(t.TempDir()).Probe(t.Context()); report.Version == "" {
		t.Skipf("%s (%s)", report.Reason, report.Remedy)
	}
}

func TestConformance(t *testing.T) {
	needBwrap(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: guestagent.Overhead, Weaknesses: commandtest.Weaknesses()})
}

func TestAgainAsOrdinaryUser(t *testing.T) {
	needBwrap(t)
	commandtest.AsOrdinaryUser(t, "^(TestConformance|TestBox.*)$")
}
