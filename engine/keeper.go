package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"aether/sandbox"
)

const (
	// batch is how many children the keeper asks for at once: a fork in between
	// waits for them.
	batch = 4
	// linger lets a child that was just claimed begin before the next one is made,
	// which takes the same CPU.
	linger = 5 * time.Millisecond
	// recount is how often the memory of the ready ones is counted anew.
	recount = 5 * time.Second

	// tellAgain is how often a failure is logged that stays.
	tellAgain = time.Minute

	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// keep fills the pool until its context ends. A failure is tried again, ever more
// slowly; claims fork by themselves meanwhile and tell their callers why.
func (p *Pool) keep(ctx context.Context) {
	defer close(p.kept)
	for wait := firstRetry; ; {
		err := p.fill(ctx)
		p.note(err)
		pause := recount
		if err != nil && !errors.Is(err, errFull) {
			pause, wait = wait, min(2*wait, lastRetry)
		} else {
			wait = firstRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
			p.linger(ctx)
		case <-p.template.done:
			p.drainDead(ctx)
			return
		case <-time.After(pause):
		}
	}
}

// linger waits a little, unless nobody is ready any more.
func (p *Pool) linger(ctx context.Context) {
	if p.Stats().Ready == 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(linger):
	}
}

// note keeps why the pool is not full. What is tried again and again is logged at
// first, and then once in a while.
func (p *Pool) note(err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, errClosed) {
		err = nil // it is not to be full any more
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Err = err
	switch {
	case err == nil || errors.Is(err, errFull):
		p.told = time.Time{}
	case time.Since(p.told) > tellAgain:
		p.told = time.Now()
		p.engine.log.Warn("engine: a pool cannot be filled", "template", p.template.recipe.Name, "tenant", p.tenant, "err", err)
	}
}

// drainDead ends the children of a template that is no more, and waits for the end of the
// pool.
func (p *Pool) drainDead(ctx context.Context) {
	p.mu.Lock()
	drained := p.parked
	p.parked = nil
	p.mu.Unlock()
	p.note(errors.Join(p.template.gone(), destroyAll(ctx, drained)))
	<-ctx.Done()
}

// errFull says that the bound on memory, and not that on the number, is reached.
var errFull = errors.New("engine: the pool's bound on memory is reached")

// fill forks until the pool is full.
func (p *Pool) fill(ctx context.Context) error {
	for {
		missing := p.missing()
		if p.template.alive() != nil {
			return p.template.gone()
		}
		room, err := p.room(ctx)
		if err != nil {
			return err
		}
		n := min(missing, room, batch)
		if n < 1 {
			return nil
		}
		err = p.add(ctx, n)
		if n > 1 && sandbox.ClassOf(err) == sandbox.Exhausted {
			err = p.add(ctx, 1) // there may be room for some of them
		}
		if err != nil {
			return err
		}
	}
}

// missing drops who has died and says how many are wanted.
func (p *Pool) missing() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parked = slices.DeleteFunc(p.parked, func(c *Child) bool { return c.alive() != nil })
	return p.opts.Size - len(p.parked)
}

// room is how many more children the memory is for: one where their size is not
// known yet. It drops those that have grown beyond the bound.
func (p *Pool) room(ctx context.Context) (int, error) {
	if p.opts.MaxBytes == 0 {
		return batch, nil
	}
	for {
		sum, count, known := p.count(ctx)
		switch {
		case count > 0 && !known:
			return batch, nil
		case count == 0:
			return 1, nil
		case sum > p.opts.MaxBytes:
			if err := p.dropOne(ctx); err != nil {
				return 0, err
			}
			if count == 1 {
				return 0, fmt.Errorf("%w: one child uses %d bytes", errFull, sum)
			}
			continue
		}
		each := max(1, sum/int64(count))
		if room := (p.opts.MaxBytes - sum) / each; room > 0 {
			return int(min(room, batch)), nil
		}
		return 0, errFull
	}
}

// count sums up what the ready ones use.
func (p *Pool) count(ctx context.Context) (sum int64, count int, known bool) {
	p.mu.Lock()
	parked := slices.Clone(p.parked)
	p.mu.Unlock()
	for _, child := range parked {
		stats, err := child.instance.Stats(ctx)
		if err != nil || stats.MemoryBytes == nil {
			continue // it has just ended, or the driver cannot tell
		}
		sum, known = sum+*stats.MemoryBytes, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stats.Bytes = nil; known {
		p.stats.Bytes = &sum
	}
	return sum, len(parked), known
}

// dropOne ends the youngest.
func (p *Pool) dropOne(ctx context.Context) error {
	p.mu.Lock()
	if len(p.parked) == 0 {
		p.mu.Unlock()
		return nil // it was claimed meanwhile
	}
	last := len(p.parked) - 1
	child := p.parked[last]
	p.parked = slices.Delete(p.parked, last, last+1)
	p.mu.Unlock()
	return child.Destroy(ctx)
}

// add forks n children and parks them, connected to what runs in them.
func (p *Pool) add(ctx context.Context, n int) error {
	specs := make([]sandbox.Spec, n)
	for i := range specs {
		specs[i] = p.childSpec()
	}
	children, err := p.opts.fork(ctx, p.template, specs)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := child.attach(ctx); err != nil {
			return errors.Join(err, destroyAll(ctx, children))
		}
	}
	if !p.park(children) {
		return destroyAll(ctx, children)
	}
	return nil
}

// park takes children in, unless the pool is closed.
func (p *Pool) park(children []*Child) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.parked = append(p.parked, children...)
	p.filled = p.filled || len(p.parked) >= p.opts.Size
	return true
}
