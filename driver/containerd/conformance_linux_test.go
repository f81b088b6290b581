package containerd_test

import (
	"testing"

	"aether/driver/daemon/daemontest"
	"aether/driver/drivertest"
	"aether/driver/guestagent"
)

// TestConformance runs with the shim of runc, which any host has room for. Others
// are for TestConformanceOfShims.
func TestConformance(t *testing.T) {
	daemontest.Need(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: guestagent.Overhead, Pace: pace, Left: held,
		Weaknesses: drivertest.OneUser("ids inside are the host's, and all containers have the same")})
}
