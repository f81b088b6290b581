package qemu

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"aether/driver/drivertest"
	"aether/driver/vmm/vmmtest"
)

// paceVariable says how slow machines are, where that is known: in the lab for
// KVM, much slower than it seems.
const paceVariable = "AETHER_TEST_PACE"

// pace is how much longer than a tenth of a second a machine takes to start here
// and to run a command, once there is a template.
func pace(t *testing.T) float64 {
	t.Helper()
	if stated := statedPace(t); stated > 0 {
		return stated
	}
	d := driverWith(t, func(*Options) {})
	var took time.Duration
	for range 2 { // the first makes the template
		began := time.Now()
		i, err := d.Create(t.Context(), testSpec())
		if err != nil {
			t.Fatal(err)
		}
		run(t, i, "true")
		took = time.Since(began)
		if err := i.Destroy(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	// A host that is busy now is not that slow throughout.
	pace := min(max(1, float64(took)/float64(100*time.Millisecond)), 20)
	t.Logf("a machine and a command take %v: pace %.1f", took, pace)
	return pace
}

// statedPace is zero where nobody says.
func statedPace(t testing.TB) float64 {
	t.Helper()
	text := os.Getenv(paceVariable)
	if text == "" {
		return 0
	}
	pace, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatalf("%s: %v", paceVariable, err)
	}
	return pace
}

// within stretches the bounds of this package's own tests, which are for emulated
// machines, to what is slower still.
func within(t testing.TB, d time.Duration) time.Duration {
	t.Helper()
	const emulated = 10
	return time.Duration(float64(d) * max(1, statedPace(t)/emulated))
}

// patience bounds what has to happen, on a host of any speed.
func patience(t testing.TB) time.Duration { return within(t, 5*time.Minute) }

func TestConformance(t *testing.T) {
	suite.Need(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Image: vmmtest.Image(), Pace: pace(t), Memory: 192 << 20})
}
