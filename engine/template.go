package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"aether/sandbox"
)

// Template is a sandbox that was prepared to be forked.
type Template struct {
	*origin
	recipe   Recipe
	driver   sandbox.Driver
	fidelity sandbox.Fidelity
	prepared time.Time
	took     time.Duration
	commands []PreparedCommand // nil of one that was made of its memory or of a sandbox
}

// ID is that of the template's own sandbox, the root of its fork tree.
func (t *Template) ID() string { return t.instance.ID() }

// Recipe is what it was made of.
func (t *Template) Recipe() Recipe { return t.recipe }

// Driver is what runs it, and Fidelity what its forks carry over.
func (t *Template) Driver() sandbox.Info       { return t.driver.Info() }
func (t *Template) Fidelity() sandbox.Fidelity { return t.fidelity }

// Prepared is when it was ready, and Took how long that took.
func (t *Template) Prepared() time.Time { return t.prepared }
func (t *Template) Took() time.Duration { return t.took }

// Frozen says whether it stands still between its forks.
func (t *Template) Frozen() bool { return t.frozen != nil }

// Done is closed when its sandbox has ended.
func (t *Template) Done() <-chan struct{} { return t.done }

// Stats says what the template itself uses, without its children.
func (t *Template) Stats(ctx context.Context) (sandbox.Stats, error) { return t.instance.Stats(ctx) }

// Fork makes one child for each Spec, all of them or none. See sandbox.Forker for
// what of a Spec counts.
func (t *Template) Fork(ctx context.Context, specs ...sandbox.Spec) ([]*Child, error) {
	return t.fork(ctx, specs)
}

// prepare makes a template, or leaves nothing behind. Without a cache, every command runs.
func (e *Engine) prepare(ctx context.Context, driver sandbox.Driver, recipe Recipe, cache *layerCache, archive func(string) (io.ReadCloser, error), notify func(string)) (_ *Template, err error) {
	defer e.making.begin(recipe.Spec.Image)()
	start := time.Now()
	if notify == nil {
		notify = func(string) {}
	}
	p := &preparation{recipe: recipe, driver: driver, cache: cache, archive: archive, notify: notify}
	defer func() { err = errors.Join(err, p.close(ctx, err != nil)) }()
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	t := &Template{recipe: recipe, driver: driver, fidelity: p.fidelity, commands: p.commands}
	t.origin = newOrigin(e, recipe.Name, p.instance, p.resident)
	if err := t.settle(ctx, notify); err != nil {
		return nil, err
	}
	t.took = time.Since(start)
	return t, nil
}

// settle freezes a template that has come to where its forks begin, and tries one.
func (t *Template) settle(ctx context.Context, notify func(string)) error {
	if err := t.freeze(ctx); err != nil {
		return err
	}
	notify(StepTry)
	if err := t.try(ctx); err != nil {
		return err
	}
	t.prepared = time.Now().Round(0)
	return nil
}

// try forks the template once, so that one that cannot be forked, for what runs in
// it, is refused when it is prepared and not when it is wanted.
func (t *Template) try(ctx context.Context) error {
	made, _, err := t.forkOnce(ctx, make([]sandbox.Spec, 1))
	if err != nil {
		return fmt.Errorf("engine: %s cannot be forked: %w", t.recipe.Name, err)
	}
	return destroyInstances(ctx, made)
}

// fidelityOf refuses a sandbox of which no running process can be forked.
func fidelityOf(instance sandbox.Instance, driver string) (sandbox.Fidelity, error) {
	forker, ok := instance.(sandbox.Forker)
	if !ok {
		return "", &sandbox.Error{Class: sandbox.Unsupported, Op: "engine: prepare", Reason: driver + " cannot fork a running sandbox on " + runtime.GOARCH,
			Remedy: "use a driver that can, such as the built-in one on amd64"}
	}
	switch f := forker.ForkFidelity(); f {
	case sandbox.Live, sandbox.Checkpoint:
		return f, nil
	default:
		return "", &sandbox.Error{Class: sandbox.Unsupported, Op: "engine: prepare",
			Reason: fmt.Sprintf("a fork by %s carries over its %s only, and no process", driver, f)}
	}
}

// close ends the template's own sandbox. Its children live on.
func (t *Template) close(ctx context.Context) error { return t.destroy(ctx) }
