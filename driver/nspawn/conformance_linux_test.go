package nspawn_test

import (
	"os"
	"testing"

	"aether/driver/command/commandtest"
	"aether/driver/drivertest"
	"aether/driver/guestagent"
	"aether/driver/nspawn"
	"aether/network/networktest"
	"aether/sandbox"
)

func newDriver(dir string) sandbox.Driver {
	return nspawn.New(nspawn.Options{RunDir: dir, Images: commandtest.Images, Network: networktest.Service()})
}

func TestMain(m *testing.M) { os.Exit(commandtest.Main(m, newDriver, nil)) }

// needNspawn skips where the system is not installed, and where only root has it.
func needNspawn(t *testing.T) {
	t.Helper()
	if report := newDriver(t.TempDir()).Probe(t.Context()); report.Version == "" || os.Geteuid() != 0 {
		t.Skipf("%s (%s)", report.Reason, report.Remedy)
	}
}

func TestConformance(t *testing.T) {
	needNspawn(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: guestagent.Overhead, Pace: 3})
}

func TestAgainAsOrdinaryUser(t *testing.T) {
	needNspawn(t)
	commandtest.AsOrdinaryUser(t, "^TestOrdinaryUserIsTold$")
}

func TestOrdinaryUserIsTold(t *testing.T) { commandtest.OrdinaryUserIsTold(t, newDriver) }
