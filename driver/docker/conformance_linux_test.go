package docker_test

import (
	"os"
	"strings"
	"testing"

	"aether/driver/daemon/daemontest"
	"aether/driver/drivertest"
	"aether/driver/guestagent"
)

// weaknesses are those that the driver's page tells of.
var weaknesses = drivertest.Weaker(
	drivertest.OneUser("ids inside are the host's, and all containers have the same"),
	drivertest.Weak("the daemon shows the image's directories of the host themselves", "locks of programs", "watches of programs"))

func TestConformance(t *testing.T) {
	daemontest.Need(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: guestagent.Overhead, Pace: pace, Left: containers, Weaknesses: weaknesses})
}

// TestConformanceOfOrdinaryUsers: who may use the socket needs no other right. What
// differs for them is in these groups. Mounts are left out: root inside is root of
// the host, and an ordinary test cannot remove what that wrote.
func TestConformanceOfOrdinaryUsers(t *testing.T) {
	daemontest.Need(t)
	if err := os.Chmod(strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://"), 0o666); err != nil {
		t.Fatal(err)
	}
	drivertest.AsOrdinaryUser(t, "^(TestConformance|TestOnlyWhatWasWrittenIsKept)$/^(probe|close|commands|files|limits|isolation|stats|snapshot)$", sharedVariable+"=1")
}
