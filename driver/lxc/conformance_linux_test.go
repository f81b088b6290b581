package lxc_test

import (
	"os"
	"testing"

	"aether/driver/command/commandtest"
	"aether/driver/drivertest"
	"aether/driver/guestagent"
	"aether/driver/lxc"
	"aether/network/networktest"
	"aether/sandbox"
)

func newDriver(dir string) sandbox.Driver {
	return lxc.New(lxc.Options{RunDir: dir, Images: commandtest.Images, Network: networktest.Service()})
}

func TestMain(m *testing.M) { os.Exit(commandtest.Main(m, newDriver, nil)) }

// needLXC skips where the system is not installed, and where only root has it.
func needLXC(t *testing.T) {
	t.Helper()
	if report := newDriver(t.TempDir()).Probe(t.Context()); report.Version == "" || os.Geteuid() != 0 {
		t.Skipf("%s (%s)", report.Reason, report.Remedy)
	}
}

func TestConformance(t *testing.T) {
	needLXC(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: guestagent.Overhead, Pace: 2})
}

func TestAgainAsOrdinaryUser(t *testing.T) {
	needLXC(t)
	commandtest.AsOrdinaryUser(t, "^TestOrdinaryUserIsTold$")
}

func TestOrdinaryUserIsTold(t *testing.T) { commandtest.OrdinaryUserIsTold(t, newDriver) }
