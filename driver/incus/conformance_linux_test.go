package incus_test

import (
	"os"
	"strings"
	"testing"

	"aether/driver/daemon/daemontest"
	"aether/driver/drivertest"
	"aether/driver/guestagent"
	"aether/sandbox"
)

// weaknesses are those that the driver's page tells of.
var weaknesses = drivertest.Weaker(
	drivertest.Weak("the daemon makes all user namespaces as root, for whom it is counted", "inotify instances", "pending signals", "room for queues"),
	drivertest.Weak("the daemon shows the image's directories and devices of the host themselves", "locks of programs", "locks of devices", "watches of programs"))

func TestConformance(t *testing.T) {
	daemontest.Need(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: guestagent.Overhead, Pace: pace, Left: containers, Weaknesses: weaknesses})
}

func TestAgainAsOrdinaryUser(t *testing.T) {
	daemontest.Need(t)
	if err := os.Chmod(os.Getenv(socketVariable), 0o666); err != nil {
		t.Fatal(err)
	}
	drivertest.AsOrdinaryUser(t, "^TestOrdinaryUserIsTold$")
}

// TestOrdinaryUserIsTold: also those who may use the socket cannot reach what runs
// inside.
func TestOrdinaryUserIsTold(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("TestAgainAsOrdinaryUser runs this")
	}
	driver := newDriver(t.TempDir())
	if report := driver.Probe(t.Context()); report.Usable || !strings.Contains(report.Remedy, "root") {
		t.Errorf("%+v", report)
	}
	if _, err := driver.Create(t.Context(), sandbox.Spec{}); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("create: %v", err)
	}
}
