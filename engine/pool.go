package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"aether/sandbox"
)

// PoolOptions say how much a pool keeps ready.
type PoolOptions struct {
	// Size is how many children are kept, at least one.
	Size int
	// MaxBytes bounds the memory that they use together, as far as the driver can
	// tell; zero leaves it to Size.
	MaxBytes int64
	// Spec is what its children are to be; see sandbox.Forker for what of it
	// counts. Its lifetime begins with the claim.
	Spec sandbox.Spec

	// fork makes the children; nil is Template.Fork.
	fork func(context.Context, *Template, []sandbox.Spec) ([]*Child, error)
	// low, unless it is nil, is told how many are ready when less than a quarter is, once
	// until the pool is full again.
	low func(ready int)
}

const maxPool = 10_000

func (o PoolOptions) validate() error {
	switch {
	case o.Size < 1 || o.Size > maxPool:
		return sandbox.Invalidf("size", "%d is not between 1 and %d", o.Size, maxPool)
	case o.MaxBytes < 0:
		return sandbox.Invalidf("max_bytes", "%d is negative", o.MaxBytes)
	case o.Spec.ID != "":
		return sandbox.Invalidf("id", "children of a pool cannot all be %q", o.Spec.ID)
	}
	return o.Spec.Validate()
}

// Pool keeps children of a template ready for one tenant.
type Pool struct {
	tenant   string
	opts     PoolOptions
	engine   *Engine
	template *Template
	wake     chan struct{} // the keeper has something to do
	stop     context.CancelFunc
	kept     chan struct{} // closed when the keeper has ended

	mu     sync.Mutex
	parked []*Child // oldest first
	stats  PoolStats
	filled bool      // it was full, and has not been low since
	told   time.Time // when a failure was logged that still stands
	closed bool
}

// PoolStats is how a pool does.
type PoolStats struct {
	Ready int `json:"ready"`
	// Bytes is what the ready ones used when they were last counted; nil if they
	// are not bounded by it, or the driver cannot tell.
	Bytes *int64 `json:"bytes,omitempty"`
	// Claimed counts children that were handed out, Direct those of them that had
	// to be forked then.
	Claimed int64 `json:"claimed"`
	Direct  int64 `json:"direct"`
	// Err is why the pool is not full, if it is not, and Reason its text.
	Err    error  `json:"-"`
	Reason string `json:"reason,omitempty"`
}

// Pool gives the tenant's pool of a template. The first call makes it, and its
// options are those that count.
func (e *Engine) Pool(tenant, template string, opts PoolOptions) (*Pool, error) {
	if tenant == "" {
		return nil, sandbox.Invalidf("tenant", "a pool belongs to one, and none is given")
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	t, err := e.find(template)
	if err != nil {
		return nil, err
	}
	key := poolKey{tenant, template}
	if p := e.pools[key]; p != nil {
		return p, nil
	}
	return e.startPool(key, t, opts), nil
}

// startPool begins to fill a pool. e.mu is held.
func (e *Engine) startPool(key poolKey, t *Template, opts PoolOptions) *Pool {
	if opts.fork == nil {
		opts.fork = func(ctx context.Context, t *Template, specs []sandbox.Spec) ([]*Child, error) {
			return t.Fork(ctx, specs...)
		}
	}
	p := &Pool{tenant: key.tenant, opts: opts, engine: e, template: t, wake: make(chan struct{}, 1), kept: make(chan struct{})}
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	e.pools[key] = p
	go p.keep(ctx)
	return p
}

// Claim gives a child that nobody else has or had. It comes from those that are
// ready or, if there are none, from a fork.
//
// Errors: Denied for another tenant; NotFound if the template has ended; and those
// of the fork.
func (p *Pool) Claim(ctx context.Context, tenant string) (*Child, error) {
	if tenant != p.tenant {
		return nil, &sandbox.Error{Class: sandbox.Denied, Op: "engine: claim", Reason: "the pool belongs to another tenant"}
	}
	child, err := p.take()
	if err != nil {
		return nil, err
	}
	if child == nil {
		if child, err = p.fork(ctx); err != nil {
			return nil, err
		}
	}
	child.expire(p.opts.Spec.Timeouts.Lifetime)
	return child, nil
}

// take takes the oldest child that lives, if there is one.
func (p *Pool) take() (*Child, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, &sandbox.Error{Class: sandbox.Conflict, Op: "engine: claim", Reason: "the pool is closed"}
	}
	defer p.rouse()
	defer p.lower()
	p.stats.Claimed++
	for len(p.parked) > 0 {
		child := p.parked[0]
		p.parked[0] = nil
		p.parked = p.parked[1:]
		if child.alive() == nil {
			return child, nil
		}
	}
	p.stats.Direct++
	return nil, nil
}

// lower tells that few are left. p.mu is held.
func (p *Pool) lower() {
	if p.filled && p.opts.low != nil && 4*len(p.parked) < p.opts.Size {
		p.filled = false
		p.opts.low(len(p.parked))
	}
}

func (p *Pool) fork(ctx context.Context) (*Child, error) {
	children, err := p.opts.fork(ctx, p.template, []sandbox.Spec{p.childSpec()})
	if err != nil {
		return nil, err
	}
	return children[0], nil
}

// childSpec leaves the lifetime out: it begins with the claim.
func (p *Pool) childSpec() sandbox.Spec {
	spec := p.opts.Spec
	spec.Timeouts.Lifetime = 0
	return spec
}

// rouse tells the keeper to look.
func (p *Pool) rouse() {
	select {
	case p.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Stats says how the pool does.
func (p *Pool) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := p.stats
	if stats.Ready = len(p.parked); stats.Err != nil {
		stats.Reason = stats.Err.Error()
	}
	return stats
}

// Close ends the children that are ready. Those that were handed out live on. It
// is idempotent.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	<-p.kept
	p.engine.dropPool(p)
	p.mu.Lock()
	drained := p.parked
	p.parked = nil
	p.mu.Unlock()
	if err := destroyAll(ctx, drained); err != nil {
		return fmt.Errorf("engine: close a pool: %w", err)
	}
	return nil
}

func (e *Engine) dropPool(p *Pool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, pool := range e.pools {
		if pool == p {
			delete(e.pools, key)
		}
	}
}

func (e *Engine) allPools() []*Pool { return e.poolsWhere(func(poolKey) bool { return true }) }

func (e *Engine) poolsOf(template string) []*Pool {
	return e.poolsWhere(func(key poolKey) bool { return key.template == template })
}

func (e *Engine) poolsWhere(wanted func(poolKey) bool) []*Pool {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*Pool
	for key, p := range e.pools {
		if wanted(key) {
			list = append(list, p)
		}
	}
	return list
}
