package qemu

import (
	"os"
	"strconv"
	"testing"

	"aether/driver/drivertest"
)

const (
	// emulatedVariable asks for the whole suite also where machines are emulated.
	emulatedVariable = "AETHER_TEST_EMULATED"
	// paceVariable says how slow machines are, where that is known: in the lab for
	// KVM, much slower than it seems.
	paceVariable = "AETHER_TEST_PACE"
)

// pace is by default for emulated machines, which boot in some seconds.
func pace(t *testing.T) float64 {
	text := os.Getenv(paceVariable)
	if text == "" {
		return 20
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("%s: %v", paceVariable, err)
	}
	return n
}

func TestConformance(t *testing.T) {
	needMachine(t)
	if err := kvmWorks(); err != nil && os.Getenv(emulatedVariable) == "" {
		t.Skipf("emulated machines take minutes for the whole suite: set %s=1, or use the lab (go run ./kvmlab): %v", emulatedVariable, err)
	}
	drivertest.Run(t, drivertest.Config{New: newDriver, Image: os.Getenv(imageVariable), Pace: pace(t), Memory: 192 << 20})
}
