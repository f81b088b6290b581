package kata_test

import (
	"testing"

	"aether/driver/drivertest"
	"aether/guest/inside"
)

// TestConformance runs on containerd with the shim of runc, which any host has
// room for. With Kata's shim each container is a machine: TestConformanceOfKata.
func TestConformance(t *testing.T) {
	needDaemon(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: inside.Overhead, Pace: pace, Left: held})
}
