package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aether/interpreter"
	"aether/sandbox"
)

// Resident is the process that a template leaves running.
type Resident struct {
	// PID is its number inside, which is the same in every child; zero if the template
	// left nothing that it knows of.
	PID int `json:"pid,omitempty"`
	// Interpreter names it to whoever attaches to it, if it is an interpreter.
	Interpreter *interpreter.Handle `json:"interpreter,omitempty"`
}

// origin is a sandbox that can be forked: a template's own, or a child.
type origin struct {
	engine   *Engine
	template string
	instance sandbox.Instance
	resident Resident
	// frozen is how it is kept between forks, nil if it runs.
	frozen sandbox.Pauser
	turn   chan struct{} // held by the fork under way
	done   chan struct{} // closed when the sandbox has ended
	exit   sandbox.Exit  // once done is closed
	// unwatch ends the watching: somebody else holds the sandbox from then on.
	unwatch context.CancelFunc
}

func newOrigin(e *Engine, template string, instance sandbox.Instance, r Resident) *origin {
	return &origin{engine: e, template: template, instance: instance, resident: r,
		turn: make(chan struct{}, 1), done: make(chan struct{})}
}

// watch notes the sandbox's end and calls ended. It needs no bound: whoever
// closes the engine destroys the sandbox, or has it unwatched before.
func (o *origin) watch(ended func()) {
	var ctx context.Context
	ctx, o.unwatch = context.WithCancel(context.Background())
	o.engine.watching.Go(func() {
		defer o.unwatch()
		var err error
		if o.exit, err = o.instance.Wait(ctx); err != nil {
			if ctx.Err() != nil {
				return
			}
			o.engine.log.Error("engine: why a sandbox has ended is not known", "sandbox", o.instance.ID(), "err", err)
		}
		o.engine.tree.end(o.instance.ID(), time.Now())
		close(o.done)
		ended()
	})
}

// destroy ends the sandbox, and notes that in the tree before whoever watches does.
func (o *origin) destroy(ctx context.Context) error {
	if err := o.instance.Destroy(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	o.engine.tree.end(o.instance.ID(), time.Now())
	return nil
}

// freeze keeps the sandbox from running where that can be done.
func (o *origin) freeze(ctx context.Context) error {
	p, ok := o.instance.(sandbox.Pauser)
	if !ok {
		return nil
	}
	err := p.Pause(ctx)
	switch sandbox.ClassOf(err) {
	case sandbox.Unavailable, sandbox.Unsupported:
		return nil // it goes on; a process that waits for input does nothing
	}
	if err == nil {
		o.frozen = p
	}
	return err
}

// forkOnce forks the sandbox and gives what the driver made.
func (o *origin) forkOnce(ctx context.Context, specs []sandbox.Spec) (_ []sandbox.Instance, took time.Duration, err error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-o.done:
		return nil, 0, o.gone()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	if err := o.alive(); err != nil {
		return nil, 0, err
	}
	forker, ok := o.instance.(sandbox.Forker)
	if !ok {
		return nil, 0, &sandbox.Error{Class: sandbox.Unsupported, Reason: "this driver cannot fork sandboxes"}
	}
	start := time.Now()
	made, err := forker.Fork(ctx, specs)
	if o.frozen != nil && sandbox.ClassOf(err) == sandbox.Conflict {
		made, err = o.forkThawed(ctx, forker, specs)
	}
	if err != nil {
		return nil, 0, errors.Join(err, destroyInstances(ctx, made))
	}
	return made, time.Since(start), nil
}

// forkThawed is for drivers that can fork only what runs: the sandbox is let go
// for the length of the fork.
func (o *origin) forkThawed(ctx context.Context, forker sandbox.Forker, specs []sandbox.Spec) ([]sandbox.Instance, error) {
	if err := o.frozen.Resume(ctx); err != nil {
		return nil, err
	}
	made, err := forker.Fork(ctx, specs)
	return made, errors.Join(err, o.frozen.Pause(context.WithoutCancel(ctx)))
}

// fork makes one child for each Spec: all of them or none.
func (o *origin) fork(ctx context.Context, specs []sandbox.Spec) (_ []*Child, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("engine: fork %s: %w", o.template, err)
		}
	}()
	if len(specs) == 0 {
		return nil, nil
	}
	ctx, release, err := o.engine.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	made, took, err := o.forkOnce(ctx, specs)
	if err != nil {
		return nil, err
	}
	children := make([]*Child, len(made))
	for i, instance := range made {
		children[i] = o.engine.adopt(o, instance, Node{ID: instance.ID(), Parent: o.instance.ID(), Template: o.template, Born: time.Now(), Took: took, Batch: len(made)})
	}
	for _, child := range children {
		if err := child.wake(ctx); err != nil {
			return nil, errors.Join(err, destroyAll(ctx, children))
		}
	}
	return children, nil
}

func (o *origin) alive() error {
	select {
	case <-o.done:
		return o.gone()
	default:
		return nil
	}
}

// gone is the error for a sandbox that has ended.
func (o *origin) gone() error {
	e := &sandbox.Error{Class: sandbox.NotFound, Reason: "its sandbox has ended (" + string(o.exit.Cause) + ")"}
	if o.exit.Detail != "" {
		e.Reason += ": " + o.exit.Detail
	}
	return e
}

func destroyInstances(ctx context.Context, list []sandbox.Instance) error {
	var errs []error
	for _, instance := range list {
		errs = append(errs, instance.Destroy(context.WithoutCancel(ctx)))
	}
	return errors.Join(errs...)
}

func destroyAll(ctx context.Context, children []*Child) error {
	var errs []error
	for _, child := range children {
		errs = append(errs, child.Destroy(ctx))
	}
	return errors.Join(errs...)
}
