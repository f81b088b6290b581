package interpreter

import (
	"context"
	"time"
)

// Close ends the interpreter. An idle one may end by itself first, so that its
// exit handlers run, and hangs up on what it left running in its process group; a
// busy one is killed with its group. It is idempotent.
func (c *Context) Close(ctx context.Context) error {
	select {
	case <-c.ended:
		return nil
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
		go c.hangUp()
		if c.waitEnd(ctx, c.opts.grace()) {
			return nil
		}
	default:
	}
	err := c.kill()
	if !c.waitEnd(context.Background(), killWait) {
		c.Detach()
	}
	return err
}

// hangUp ends the input, upon which the interpreter ends.
func (c *Context) hangUp() {
	c.send(c.handle.Language.farewell())
	c.input.Close()
}

func (c *Context) waitEnd(ctx context.Context, most time.Duration) bool {
	select {
	case <-c.ended:
		return true
	case <-ctx.Done():
		return false
	case <-time.After(most):
		return false
	}
}
