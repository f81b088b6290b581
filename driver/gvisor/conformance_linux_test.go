package gvisor_test

import (
	"testing"

	"aether/driver/command/commandtest"
	"aether/driver/drivertest"
	"aether/driver/guestagent"
)

func TestConformance(t *testing.T) {
	need(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: guestagent.Overhead, Pace: 5, Memory: 256 << 20})
}

func TestAgainAsOrdinaryUser(t *testing.T) {
	need(t)
	commandtest.AsOrdinaryUser(t, "^(TestConformance|TestBoxHasAKernelOfItsOwn|TestBoxMountsAreThereAgain)$")
}
