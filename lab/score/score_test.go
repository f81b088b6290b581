package score

import (
	"math"
	"testing"
	"time"
)

func TestLatency(t *testing.T) {
	for at, want := range map[time.Duration]float64{
		0: 1, 500 * time.Microsecond: 1, time.Millisecond: 1, 10 * time.Millisecond: 0.8, 100 * time.Millisecond: 0.6,
		time.Second: 0.4, 10 * time.Second: 0.2, 100 * time.Second: 0, time.Hour: 0,
	} {
		if got := Latency(at); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v scores %v, want %v", at, got, want)
		}
	}
}

func TestScores(t *testing.T) {
	all := Kept{true, true, true, true, true}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"a cold start alone", Start(10*time.Millisecond, 10*time.Millisecond), 0.8},
		{"a fork that is faster", Start(100*time.Millisecond, time.Millisecond), 0.8},
		{"a fork that is slower counts for nothing", Start(time.Millisecond, time.Second), 1},
		{"100 KiB", Density(100, 0), 1},
		{"noise below zero", Density(-5, -1), 1},
		{"100 MiB", Density(100_000, 0), 0.4},
		{"a busy idle sandbox", Density(0, 1.0/4194.304), 0.8},
		{"everything at once", Snapshotting(all, Copying{time.Millisecond, 0, 1}), 1},
		{"files in a second", Snapshotting(Kept{Files: true}, Copying{time.Second, time.Millisecond, 0}), 0.25 * 3.4 / 5},
		{"nothing", Snapshotting(Kept{}, Copying{0, 0, 1}), 0},
		{"half", Control(0, 9, 9), 0.5},
		{"no rubric", Control(0, 0, 0), 0},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

// TestScoresAreMonotoneAndContinuous walks every score along each of its figures in small
// steps: none ever rises with a cost, or jumps.
func TestScoresAreMonotoneAndContinuous(t *testing.T) {
	all := Kept{true, true, true, true, true}
	const steps, jump = 20_000, 0.001
	// at is a time, or KiB, from 10 us, or 10, over ten powers of ten.
	at := func(i int) float64 { return 10 * math.Pow(10, 10*float64(i)/steps) }
	us := func(i int) time.Duration { return time.Duration(at(i) * 1000) }
	for name, cost := range map[string]func(int) float64{
		"latency":    func(i int) float64 { return Latency(us(i)) },
		"cold":       func(i int) float64 { return Start(us(i), 50*time.Millisecond) },
		"fastest":    func(i int) float64 { return Start(50*time.Millisecond, us(i)) },
		"memory":     func(i int) float64 { return Density(at(i), 0.0001) },
		"processors": func(i int) float64 { return Density(500, at(i)/1e10) },
		"branch":     func(i int) float64 { return Snapshotting(all, Copying{us(i), time.Second, 0.5}) },
		"still":      func(i int) float64 { return Snapshotting(all, Copying{time.Second, us(i), 0.5}) },
		"unshared":   func(i int) float64 { return Snapshotting(all, Copying{time.Second, time.Second, 1 - float64(i)/steps}) },
	} {
		for i := range steps {
			before, after := cost(i), cost(i+1)
			if after > before || before-after > jump || after < 0 || before > 1 {
				t.Errorf("%s: step %d goes from %v to %v", name, i, before, after)
				break
			}
		}
	}
	for n := range 9 {
		if Control(n, 3, 9) >= Control(n+1, 3, 9) || Control(3, n, 9) >= Control(3, n+1, 9) {
			t.Errorf("a fact more at %d does not count", n)
		}
	}
}
