package interpreter

import (
	"context"
	"errors"
	"syscall"
	"time"

	"aether/guest"
	"aether/sandbox"
)

// startWait bounds the start of an interpreter by a caller that states no bound.
const startWait = 30 * time.Second

// Start starts an interpreter in the sandbox of the client. The context bounds the
// start only.
//
// Errors: Invalid for the language and the options; NotFound if the image has no
// such interpreter, or one that ends at once, with an *Ended; Unavailable if it is
// too old for the language.
func Start(ctx context.Context, client *guest.Client, language Language, opts Options) (*Context, error) {
	if err := errors.Join(language.validate(), opts.validate()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	c := newContext(client, opts, Handle{Language: language, Key: newToken(), Path: opts.Env["PATH"]})
	if err := c.launch(ctx, language.launch(c.handle.Key, c.limits)); err != nil {
		return nil, err
	}
	greeting, err := c.do(ctx, request{op: "sync"})
	if err == nil {
		err = incapable(greeting)
	}
	if err != nil {
		return nil, errors.Join(err, c.discard())
	}
	return c, nil
}

// incapable is the refusal of an interpreter that came up and cannot do what it is for,
// which only a Node.js that knows no types does. Errors: Unavailable.
func incapable(greeting Result) error {
	if greeting.Error == nil {
		return nil
	}
	return &sandbox.Error{Class: sandbox.Unavailable, Op: "interpreter: start", Field: "language", Reason: greeting.Error.Message,
		Remedy: "use an image with Node.js 22.13 or newer, or code without types"}
}

func (c *Context) launch(ctx context.Context, l launch) error {
	cmd := guest.Cmd{Path: l.path, Args: l.args, Env: c.opts.Env, Dir: c.opts.WorkDir, Tag: c.opts.Tag}
	c.program = l.program
	start := func(life context.Context, cmd guest.Cmd) (*guest.Running, error) { return c.client.Start(life, cmd) }
	err := c.link(ctx, cmd, start, killAbandoned)
	if sandbox.ClassOf(err) == sandbox.NotFound && l.path == "sh" {
		// An image without a shell: node then reads its requests from standard input.
		return c.launch(ctx, c.handle.Language.nodeLaunch(c.handle.Key, c.limits, 0, 1, 2))
	}
	return err
}

// killAbandoned ends a process that came up when nobody waited for it any more.
func killAbandoned(running *guest.Running) {
	ctx, cancel := context.WithTimeout(context.Background(), signalWait)
	defer cancel()
	_ = running.Signal(ctx, syscall.SIGKILL) // its caller has gone with an error of its own
}

// discard ends an interpreter that did not come up.
func (c *Context) discard() error {
	select {
	case <-c.ended:
		return nil
	default:
		return c.kill()
	}
}
