package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aether/sandbox"
)

// runCached has the commands of the recipe have run: it begins from the layer that has the
// most of them, runs the rest and keeps a layer after each. What another preparation is
// running meanwhile is waited for.
func (p *preparation) runCached(ctx context.Context) error {
	for {
		again, err := p.tryCached(ctx)
		if !again {
			return err
		}
	}
}

func (p *preparation) tryCached(ctx context.Context) (again bool, err error) {
	c := p.cache
	base, done := c.longest()
	if other := c.claim(done); other != nil {
		return p.await(ctx, other)
	}
	defer func() {
		var failure commandFailure
		if errors.As(err, &failure) {
			c.end(layerFailed, err)
		}
		c.end(layerGivenUp, nil) // if there is still one
	}()
	spec := p.recipe.Spec
	if c.bare(done) {
		spec.Command.Env = nil
	}
	if base == nil {
		err = p.create(ctx, spec)
	} else if again, err = p.restoreLayer(ctx, base, spec); again {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	p.commands = make([]PreparedCommand, 0, len(c.steps))
	for _, step := range c.steps[:done] {
		p.notify(StepCached + " " + step.shown())
		p.commands = append(p.commands, PreparedCommand{Command: step.shown(), Cached: true})
	}
	if again, err = p.runRest(ctx, done); again || err != nil || len(spec.Command.Env) == len(p.recipe.Spec.Command.Env) {
		return again, err
	}
	if err := p.close(ctx, true); err != nil {
		return false, err
	}
	return p.restoreLayer(ctx, c.below(), p.recipe.Spec)
}

// restoreLayer makes the sandbox of a layer, with the defaults of a Spec. One that cannot be used is dropped, and the
// caller tries again without it.
func (p *preparation) restoreLayer(ctx context.Context, base *layer, spec sandbox.Spec) (again bool, err error) {
	p.notify(StepCreate)
	err = p.open(ctx, func() (sandbox.Instance, error) {
		as := childSpec(spec, spec.ID)
		as.Command = spec.Command
		return p.driver.(sandbox.Restorer).Restore(ctx, p.cache.layers.dir(base), sandbox.Filesystem, as)
	})
	if err == nil || p.instance != nil || ctx.Err() != nil {
		return false, err
	}
	switch sandbox.ClassOf(err) {
	case sandbox.Unavailable, sandbox.Exhausted, sandbox.Timeout:
		return false, err // of which the layer is not the cause
	}
	p.cache.layers.fleet.engine.log.Warn("engine: a layer cannot be used and is made anew", "layer", base.record.ID, "tenant", base.record.Tenant, "command", base.record.Command, "err", err)
	p.cache.layers.drop(base)
	return true, nil
}

// runRest runs the commands from one on, and keeps what each left.
func (p *preparation) runRest(ctx context.Context, from int) (again bool, err error) {
	before, err := p.population(ctx)
	if err != nil {
		return false, err
	}
	for i := from; i < len(p.cache.steps); i++ {
		bare := p.cache.bare(from)
		if err := p.run(ctx, p.cache.steps[i]); err != nil {
			return false, err
		}
		if err := p.keepLayer(ctx, i, before); err != nil {
			return false, err
		}
		if bare && p.cache.alone {
			// No layer has what this one left: it is run once more, with the variables of
			// the Spec, that sandboxes have them.
			return true, p.close(ctx, true)
		}
		if other := p.cache.claim(i + 1); other != nil {
			// Somebody had this layer before, and is ahead.
			if err := p.close(ctx, true); err != nil {
				return false, err
			}
			return p.await(ctx, other)
		}
	}
	return false, nil
}

// keepLayer keeps what a command left. That it cannot be kept fails nothing: the template
// says why. Errors: those of the context.
func (p *preparation) keepLayer(ctx context.Context, command int, before population) error {
	if p.cache.alone {
		p.commands[len(p.commands)-1].Unkept, p.cache.reason = p.cache.reason, ""
		return nil
	}
	why, err := p.tryKeep(ctx, command, before)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("engine: keep what %s left: %w", p.cache.steps[command].shown(), context.Cause(ctx))
	case err != nil:
		why = err.Error()
		if sandbox.ClassOf(err) == sandbox.Unsupported {
			p.cache.layers.cannot(p.driver.Info().Name)
		}
	}
	if why != "" {
		p.cache.reason = clip(why, maxDetail)
		p.commands[len(p.commands)-1].Unkept = p.cache.reason
		p.cache.unkept()
	}
	return nil
}

// lastOut is how long it is waited for processes that a command left and that are about
// to end.
const lastOut = 100 * time.Millisecond

func (p *preparation) tryKeep(ctx context.Context, command int, before population) (why string, err error) {
	keeper, ok := p.instance.(sandbox.Snapshotter)
	if !ok {
		return "", &sandbox.Error{Class: sandbox.Unsupported, Reason: p.driver.Info().Name + " does not keep files"}
	}
	for wait := firstWait; ; wait *= 2 {
		if why, err = p.left(ctx, before); why == "" || err != nil || wait > lastOut {
			break
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(wait):
		}
	}
	if why != "" || err != nil {
		return why, err
	}
	return "", p.cache.keep(ctx, keeper, command)
}

// await waits until another preparation has made a layer, and says whether this one is to
// look again. What has failed there fails here.
func (p *preparation) await(ctx context.Context, other *flight) (again bool, err error) {
	p.notify(StepAwait + " " + other.command)
	select {
	case <-other.done:
	case <-ctx.Done():
		return false, p.late(ctx, "another preparation is still running "+other.command)
	}
	switch other.outcome {
	case layerFailed:
		return false, other.err
	case layerUnkept:
		p.cache.alone = true
	}
	return true, nil
}
