package gateway

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// pace bounds how often something happens, or how much passes.
type pace struct {
	mu    sync.Mutex
	rate  float64 // a second; zero is no bound
	burst float64
	left  float64
	last  time.Time
}

func newPace(rate, burst float64) *pace {
	return &pace{rate: rate, burst: burst, left: burst, last: time.Now()}
}

// set changes the bound. What was borrowed of the one before is forgotten.
func (p *pace) set(rate, burst float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate != rate || p.burst != burst {
		p.rate, p.burst, p.left, p.last = rate, burst, burst, time.Now()
	}
}

// take says whether it may happen now.
func (p *pace) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.left = min(p.burst, p.left+now.Sub(p.last).Seconds()*p.rate)
	p.last = now
	if p.left < 1 {
		return false
	}
	p.left--
	return true
}

// delay is how long to wait after so much has passed, for the rate to be kept.
func (p *pace) delay(amount float64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		return 0
	}
	now := time.Now()
	p.left = min(p.burst, p.left+now.Sub(p.last).Seconds()*p.rate) - amount
	p.last = now
	if p.left >= 0 {
		return 0
	}
	return time.Duration(-p.left / p.rate * float64(time.Second))
}

// wait waits for that long, or until the context ends.
func (p *pace) wait(ctx context.Context, amount int) {
	d := p.delay(float64(amount))
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// atOnce bounds how much of size may be taken in one piece, so that slow connections do not
// borrow for minutes.
func (p *pace) atOnce(size int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		return size
	}
	return min(size, max(512, int(p.rate/8)))
}

// paced is a connection of the sandbox's whose bytes are counted and held to a pace.
type paced struct {
	net.Conn
	ctx            context.Context
	pace           *pace
	sent, received *atomic.Int64 // by the sandbox
}

func (c *paced) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:c.pace.atOnce(len(b))])
	c.sent.Add(int64(n))
	c.pace.wait(c.ctx, n)
	return n, err
}

func (c *paced) Write(b []byte) (written int, err error) {
	for len(b) > 0 && err == nil {
		var n int
		size := c.pace.atOnce(len(b))
		c.pace.wait(c.ctx, size)
		n, err = c.Conn.Write(b[:size])
		c.received.Add(int64(n))
		written, b = written+n, b[n:]
	}
	return written, err
}
