package interpreter

import (
	"context"
	"time"

	"aether/guest"
	"aether/sandbox"
)

// linked is the outcome of connecting to a process.
type linked struct {
	running *guest.Running
	err     error
}

// link connects to the process that begin starts or finds. What it connects to
// outlives the context, which bounds only the connecting: a process that comes
// later than that goes to abandon.
func (c *Context) link(ctx context.Context, cmd guest.Cmd, begin func(context.Context, guest.Cmd) (*guest.Running, error), abandon func(*guest.Running)) error {
	c.life, c.unlink = context.WithCancel(context.WithoutCancel(ctx))
	out, errs := c.streams(&cmd)
	outcome := make(chan linked, 1)
	go func() {
		running, err := begin(c.life, cmd)
		outcome <- linked{running, err}
	}()
	select {
	case l := <-outcome:
		return c.linked(l, out, errs)
	case <-ctx.Done():
		go c.leave(outcome, abandon)
		return c.linkError(ctx.Err())
	}
}

func (c *Context) linked(l linked, out, errs *stream) error {
	if l.err != nil {
		c.unlink()
		c.input.CloseWithError(errGone)
		return c.linkError(l.err)
	}
	c.running, c.handle.PID = l.running, l.running.Pid()
	go c.follow(l.running, out, errs)
	return nil
}

func (c *Context) linkError(err error) error {
	return &sandbox.Error{Class: sandbox.ClassOf(err), Op: "interpreter: connect to " + string(c.handle.Language), Err: err}
}

// leave waits for a connection that nobody wants any more and ends it.
func (c *Context) leave(outcome <-chan linked, abandon func(*guest.Running)) {
	giveUp := time.AfterFunc(startWait, c.unlink)
	defer giveUp.Stop()
	if l := <-outcome; l.err == nil {
		abandon(l.running)
		_ = l.running.Close() // it is not needed any more
	}
	c.unlink()
	c.input.CloseWithError(errGone)
}
