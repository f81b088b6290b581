package score

import (
	"math"
	"time"
)

// Latency is 1 up to a millisecond; each tenfold above costs a fifth, so that it is
// 0 from a hundred seconds on.
func Latency(t time.Duration) float64 { return fall(t.Seconds(), time.Millisecond.Seconds()) }

// fall is 1 up to best, and loses a fifth with every tenfold above it.
func fall(value, best float64) float64 {
	if value <= best {
		return 1
	}
	return max(0, 1-math.Log10(value/best)/5)
}

// Start is the score on start-latency: half for a cold start, and half for the fastest
// way to a fresh sandbox that the system has, which may be that very start.
func Start(cold, fastest time.Duration) float64 {
	return (Latency(cold) + Latency(min(cold, fastest))) / 2
}
