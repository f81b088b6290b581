package engine

import (
	"context"
	"errors"
	"strings"
	"sync"
)

// build is the making of one version of a template. Whoever asks for the same while it
// runs waits for it too, and it ends when nobody waits any more.
type build struct {
	version *version
	digest  string // of what it makes; empty for what only its version can be
	cancel  context.CancelCauseFunc
	done    chan struct{}
	err     error // once done is closed

	telling sync.Mutex // held while those who wait are told; taken before mu
	told    map[*func(string)]bool

	mu      sync.Mutex
	waiting int
	last    string
}

// tell passes a step on to those who wait.
func (b *build) tell(step string) {
	if !strings.HasPrefix(step, StepOutput) {
		b.mu.Lock()
		b.last = step
		b.mu.Unlock()
	}
	b.telling.Lock()
	defer b.telling.Unlock()
	for notify := range b.told {
		(*notify)(step)
	}
}

// step is what is being done.
func (b *build) step() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// join counts one more who waits, and says whether that came in time: a build that was
// given up makes nothing any more.
func (b *build) join() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == 0 {
		return false
	}
	b.waiting++
	return true
}

// observe has notify, unless it is nil, told of each step from now on.
func (b *build) observe(notify *func(string)) {
	if notify != nil && *notify != nil {
		b.telling.Lock()
		defer b.telling.Unlock()
		b.told[notify] = true
	}
}

// wait waits for the end of a build that the caller has joined. notify, unless it is nil,
// is told of each step. Whoever is the last to give up waits until nothing is left.
func (b *build) wait(ctx context.Context, notify *func(string)) error {
	b.observe(notify)
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
	}
	b.telling.Lock() // nobody is told after this has returned
	delete(b.told, notify)
	b.telling.Unlock()
	b.mu.Lock()
	b.waiting--
	last := b.waiting == 0
	b.mu.Unlock()
	if last {
		b.cancel(context.Cause(ctx))
		<-b.done
	}
	return context.Cause(ctx)
}

// start begins to make a version by do, with one who waits and is told of every step, the
// first included. Of the context only the values count. c.mu is held.
func (c *catalogue) start(ctx context.Context, v *version, digest string, notify *func(string), do func(context.Context, func(string)) (*Template, error)) *build {
	b := &build{version: v, digest: digest, done: make(chan struct{}), waiting: 1, told: map[*func(string)]bool{}}
	b.observe(notify)
	ctx, b.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	v.build = b
	if digest != "" {
		c.builds[digest] = b
	}
	c.fleet.engine.watching.Go(func() { c.run(ctx, b, do) })
	return b
}

// run makes a version, and leaves it as it was if it cannot be made.
func (c *catalogue) run(ctx context.Context, b *build, do func(context.Context, func(string)) (*Template, error)) {
	defer b.cancel(nil)
	ctx, release, err := c.fleet.engine.enter(ctx)
	if err == nil {
		defer release()
		err = c.attempt(ctx, b, do)
	}
	c.mu.Lock()
	if b.version.build, b.err = nil, err; b.digest != "" {
		delete(c.builds, b.digest)
	}
	if err != nil {
		c.failed(b.version, err)
	}
	c.mu.Unlock()
	close(b.done)
}

func (c *catalogue) attempt(ctx context.Context, b *build, do func(context.Context, func(string)) (*Template, error)) error {
	t, err := do(ctx, b.tell)
	if err == nil {
		err = c.settle(ctx, b.version, t)
	}
	if err != nil && ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err) // why it was given up is what counts
	}
	return err
}

// failed is what becomes of a version that could not be made: one that never was ready is
// nothing. c.mu is held.
func (c *catalogue) failed(v *version, why error) {
	if v.grant != nil {
		v.grant.Give()
		v.grant = nil
	}
	if !v.declared {
		c.drop(v)
		return
	}
	v.record.State, v.record.Reason = TemplateFailed, clip(why.Error(), maxDetail)
}
