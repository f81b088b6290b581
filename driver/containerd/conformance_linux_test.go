package containerd_test

import (
	"testing"

	"aether/driver/daemons/daemonstest"
	"aether/driver/drivertest"
	"aether/guest/inside"
)

// TestConformance runs with the shim of runc, which any host has room for. Others
// are for TestConformanceOfShims.
func TestConformance(t *testing.T) {
	daemonstest.Need(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: inside.Overhead, Pace: pace, Left: held})
}
