package gvisor_test

import (
	"testing"

	"aether/driver/drivertest"
	"aether/guest/inside"
)

func TestConformance(t *testing.T) {
	need(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: inside.Overhead, Pace: 5, Memory: 256 << 20})
}

func TestAgainAsOrdinaryUser(t *testing.T) {
	need(t)
	drivertest.AsOrdinaryUser(t, "^(TestConformance|TestBoxHasAKernelOfItsOwn|TestBoxMountsAreThereAgain)$", storeVariable+"=")
}
