package access

import (
	"math"
	"time"
)

// bucket holds what a tenant may create at once: at most a minute's worth, and at
// least one where the rate is below that.
type bucket struct {
	tokens float64
	filled time.Time // zero before the first use: full
}

// take takes so many, or says when they will be there.
func (b *bucket) take(tenant string, perMinute *float64, n int, now time.Time) error {
	if perMinute == nil || n <= 0 {
		return nil
	}
	rate, size := *perMinute, math.Max(1, *perMinute)
	have := size
	if !b.filled.IsZero() {
		have = math.Min(size, b.tokens+max(0, now.Sub(b.filled)).Minutes()*rate)
	}
	if lacking := float64(n) - have; lacking > 0 || rate == 0 {
		never := rate == 0 || float64(n) > size
		return exhausted("quota.creates_per_minute", minutes(lacking/rate), never, "the tenant %s may create %v a minute, and asks for %d now", tenant, rate, n)
	}
	b.tokens, b.filled = have-float64(n), now
	return nil
}

// minutes is so many as a duration, rounded up to what clients can wait for.
func minutes(n float64) time.Duration {
	if !(n > 0 && n < 1e6) {
		return 0
	}
	return (time.Duration(n*float64(time.Minute)) + time.Millisecond).Round(time.Millisecond)
}
