package interpreter

import (
	"context"

	"aether/guest"
)

// Attach connects to an interpreter that runs already: one that was detached
// from, or the copy of one in a forked sandbox, which its client reaches. Only the
// Limits and the Grace of the options count. A copy should be asked to Reseed
// before anything else. One at a time may be attached to an interpreter and run
// code in it.
//
// It waits for a call that is under way there. Errors: Invalid for the handle;
// NotFound if there is no such process; Timeout if it does not answer in time,
// and nothing was done to it.
func Attach(ctx context.Context, client *guest.Client, handle Handle, opts Options) (*Context, error) {
	if err := handle.validate(); err != nil {
		return nil, err
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	c := newContext(client, opts, handle)
	connect := func(life context.Context, cmd guest.Cmd) (*guest.Running, error) {
		return client.Connect(life, handle.PID, cmd)
	}
	if err := c.link(ctx, guest.Cmd{}, connect, func(*guest.Running) {}); err != nil {
		return nil, err
	}
	if _, err := c.do(ctx, request{op: "sync", gentle: true}); err != nil {
		c.Detach()
		return nil, err
	}
	return c, nil
}
