package fork

import (
	"context"
	"errors"
	"time"

	"aether/lab"
	"aether/lab/conversation"
	"aether/sandbox"
)

// source is a running program in a sandbox that is forked for every sample.
type source struct {
	instance sandbox.Instance
	pid      int
}

// source starts a program and waits until it is primed. It lives as long as the
// bench.
func (b *bench) source(ctx context.Context, command ...string) (s source, err error) {
	if s.instance, err = b.driver.Create(ctx, sandbox.Spec{}); err != nil {
		return s, err
	}
	b.undo = append(b.undo, func() error { return s.instance.Destroy(context.Background()) })
	if _, ok := s.instance.(sandbox.Forker); !ok {
		return s, &sandbox.Error{Class: sandbox.Unsupported, Op: "fork", Reason: b.driver.Info().Name + " cannot fork a running sandbox"}
	}
	c, err := conversation.Start(ctx, s.instance, command...)
	if err != nil {
		return s, err
	}
	b.undo = append(b.undo, c.Close)
	s.pid = c.Pid()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s, c.Await(ctx, readPrimed)
}

func (s source) fork(ctx context.Context, n int) ([]sandbox.Instance, error) {
	return s.instance.(sandbox.Forker).Fork(ctx, make([]sandbox.Spec, n))
}

// first forks the source and has the child answer.
func (s source) first(ctx context.Context) (_ lab.Sample, err error) {
	w := lab.StartWatch()
	children, err := s.fork(ctx, 1)
	w.Lap("fork")
	if err != nil {
		return lab.Sample{}, err
	}
	defer func() { err = errors.Join(err, children[0].Destroy(ctx)) }()
	c, err := conversation.Connect(ctx, children[0], s.pid)
	w.Lap("connect")
	if err != nil {
		return lab.Sample{}, err
	}
	err = ask(ctx, c)
	w.Lap("reply")
	sample := w.Done()
	sample.Pause = s.pause()
	return sample, errors.Join(err, c.Close())
}

// pause is how long the last fork stopped the source, where its driver says so.
func (s source) pause() time.Duration {
	if p, ok := s.instance.(sandbox.ForkReporter); ok {
		return p.LastForkPause()
	}
	return 0
}

// fresh makes a sandbox, starts the program in it and has that answer.
func (b *bench) fresh(command ...string) func(context.Context) (lab.Sample, error) {
	return func(ctx context.Context) (_ lab.Sample, err error) {
		w := lab.StartWatch()
		instance, err := b.driver.Create(ctx, sandbox.Spec{})
		w.Lap("create")
		if err != nil {
			return lab.Sample{}, err
		}
		defer func() { err = errors.Join(err, instance.Destroy(ctx)) }()
		c, err := conversation.Start(ctx, instance, command...)
		w.Lap("start")
		if err != nil {
			return lab.Sample{}, err
		}
		err = ask(ctx, c)
		w.Lap("reply")
		return w.Done(), errors.Join(err, c.Close())
	}
}
