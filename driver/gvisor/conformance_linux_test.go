package gvisor_test

import (
	"testing"

	"aether/driver/drivertest"
	"aether/driver/launched/launchedtest"
	"aether/guest/inside"
)

func TestConformance(t *testing.T) {
	need(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: inside.Overhead, Pace: 5, Memory: 256 << 20})
}

func TestAgainAsOrdinaryUser(t *testing.T) {
	need(t)
	launchedtest.AsOrdinaryUser(t, "^(TestConformance|TestBoxHasAKernelOfItsOwn|TestBoxMountsAreThereAgain)$")
}
