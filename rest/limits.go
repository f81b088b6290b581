package rest

import (
	"sync"
	"time"

	"aether/sandbox"
)

// maxBuckets bounds how many callers are remembered by their rate.
const maxBuckets = 10_000

// rates bounds how often each caller does something.
type rates struct {
	rate, burst float64 // a second, and at once

	mu    sync.Mutex
	by    map[string]*bucket
	swept time.Time
}

// bucket is what a caller has left at a moment.
type bucket struct {
	left float64
	at   time.Time
}

func newRates(rate, burst float64) *rates {
	return &rates{rate: rate, burst: burst, by: map[string]*bucket{}}
}

// take counts one more. Errors: Exhausted, with the time to wait.
func (r *rates) take(name string, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.by[name]
	if b == nil {
		r.forget(now)
		b = &bucket{left: r.burst, at: now}
		r.by[name] = b
	}
	r.fill(b, now)
	if b.left < 1 {
		return tooOften(time.Duration((1 - b.left) / r.rate * float64(time.Second)))
	}
	b.left--
	return nil
}

func (r *rates) fill(b *bucket, now time.Time) {
	b.left = min(r.burst, b.left+max(0, now.Sub(b.at).Seconds())*r.rate)
	b.at = now
}

// forget makes room for one more. Those who have all of their requests left are as if
// they had never come; they are looked for once a second, and otherwise anybody is
// forgotten, so that strangers in any number cost little.
func (r *rates) forget(now time.Time) {
	if len(r.by) < maxBuckets {
		return
	}
	if now.Sub(r.swept) >= time.Second {
		r.swept = now
		for name, b := range r.by {
			if r.fill(b, now); b.left == r.burst {
				delete(r.by, name)
			}
		}
	}
	for name := range r.by {
		if len(r.by) < maxBuckets {
			return
		}
		delete(r.by, name)
	}
}

func tooOften(after time.Duration) error {
	return &sandbox.Error{Class: sandbox.Exhausted, Reason: "too many requests", Retry: true, After: max(after, time.Millisecond)}
}

// crowd bounds how many do something at once, together and by one caller.
type crowd struct {
	what       string
	most, each int

	mu    sync.Mutex
	total int
	by    map[string]int
}

func newCrowd(what string, most, each int) *crowd {
	return &crowd{what: what, most: most, each: each, by: map[string]int{}}
}

// enter lets one more in until leave is called, once. Errors: Exhausted.
func (c *crowd) enter(name string) (leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total >= c.most || c.by[name] >= c.each {
		return nil, &sandbox.Error{Class: sandbox.Exhausted, Reason: "too many " + c.what + " at once", Retry: true, After: time.Second}
	}
	c.total++
	c.by[name]++
	return func() { c.leave(name) }, nil
}

func (c *crowd) leave(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	if c.by[name]--; c.by[name] == 0 {
		delete(c.by, name)
	}
}

func (c *crowd) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}
