package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"aether/engine/access"
	"aether/guest"
	"aether/interpreter"
	"aether/sandbox"
)

// Child is a sandbox that was forked from a template or from another child. It
// may be used by many at once.
type Child struct {
	*origin
	node   Node
	client *guest.Client

	mu          sync.Mutex // held while connecting
	interpreter *interpreter.Context
	streams     *Streams
	timer       *time.Timer
	grant       *access.Grant // what it takes of its tenant's quota; nil if nobody counts
}

// ID is the sandbox's, Parent what it was forked from, and Took how long the fork
// took that made it.
func (c *Child) ID() string          { return c.node.ID }
func (c *Child) Parent() string      { return c.node.Parent }
func (c *Child) Took() time.Duration { return c.node.Took }

// Instance is the sandbox itself, with whatever its driver can do.
func (c *Child) Instance() sandbox.Instance { return c.instance }

// Client speaks to the sandbox's guest service.
func (c *Child) Client() *guest.Client { return c.client }

// Resident is the number inside of the process that the template left running.
func (c *Child) Resident() int { return c.resident.PID }

// Handle names the interpreter that the template left running; nil if it left a
// command.
func (c *Child) Handle() *interpreter.Handle { return c.resident.Interpreter }

// Done is closed when the sandbox has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Destroy ends the sandbox, which takes nothing of a quota then, and has ended in the tree. It
// is idempotent, and does its work even if the context has ended.
func (c *Child) Destroy(ctx context.Context) error {
	if err := c.destroy(ctx); err != nil {
		return err
	}
	c.giveBack()
	return nil
}

// Fork makes one child for each Spec, all of them or none. See sandbox.Forker for
// what of a Spec counts.
func (c *Child) Fork(ctx context.Context, specs ...sandbox.Spec) ([]*Child, error) {
	return c.fork(ctx, specs)
}

// Interpreter is the copy of the template's interpreter, whose random numbers are
// its own. Errors: Conflict if the template left a command running.
func (c *Child) Interpreter(ctx context.Context) (*interpreter.Context, error) {
	if c.resident.Interpreter == nil {
		return nil, &sandbox.Error{Class: sandbox.Conflict, Op: "engine: " + c.ID(), Reason: "its template left a command running and no interpreter"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.interpreter != nil {
		return c.interpreter, nil
	}
	attached, err := interpreter.Attach(ctx, c.client, *c.resident.Interpreter, interpreter.Options{})
	if err == nil {
		c.interpreter = attached
	}
	return attached, err
}

// Streams connects to the copy of the process that the template left running. It
// gives the same connection to all until Detach.
func (c *Child) Streams(ctx context.Context) (*Streams, error) {
	if c.resident.Interpreter != nil {
		return nil, &sandbox.Error{Class: sandbox.Conflict, Op: "engine: " + c.ID(), Reason: "its template left an interpreter running, which is spoken to in its own way"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams != nil {
		return c.streams, nil
	}
	streams, err := connectStreams(ctx, c.client, c.resident.PID)
	if err == nil {
		c.streams = streams
	}
	return streams, err
}

// Detach lets go of the resident process, so that somebody else may connect to it.
func (c *Child) Detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.interpreter != nil {
		c.interpreter.Detach()
	}
	if c.streams != nil {
		c.streams.Close()
	}
	c.interpreter, c.streams = nil, nil
}

// wake makes a copy a sandbox of its own before anybody gets at it.
func (c *Child) wake(ctx context.Context) error {
	if c.resident.Interpreter == nil {
		return nil
	}
	copied, err := c.Interpreter(ctx)
	if err != nil {
		return err
	}
	_, err = copied.Reseed(ctx)
	return err
}

// attach connects to whatever the template left running.
func (c *Child) attach(ctx context.Context) (err error) {
	if c.resident.Interpreter == nil && c.resident.PID > 0 {
		_, err = c.Streams(ctx)
	}
	return err // an interpreter is attached to since it was woken
}

// expire ends the child after a while.
func (c *Child) expire(after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if after > 0 {
		c.timer = time.AfterFunc(after, func() {
			// Whoever has the child sees it end, and may never destroy it.
			if err := c.Destroy(context.Background()); err != nil {
				c.engine.log.Error("engine: a sandbox whose time is over could not be removed", "sandbox", c.ID(), "err", err)
			}
		})
	}
}

// ended gives back what the engine holds of a sandbox that is gone.
func (c *Child) ended() {
	c.mu.Lock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.giveBack()
	c.letGo()
}

// giveBack ends what the child takes of its tenant's quota.
func (c *Child) giveBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.grant != nil {
		c.grant.Give()
	}
}

// letGo gives back what the engine holds of the child besides the sandbox itself.
func (c *Child) letGo() {
	c.Detach()
	c.client.Close()
	c.engine.forget(c)
}

// take has the child take its part of a quota until it ends.
func (c *Child) take(grant *access.Grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grant = grant
	if c.alive() != nil {
		grant.Give()
	}
}

// hand gives the sandbox to whoever holds it from now on, and notes its end in the tree.
// The child is of no use any more.
func (c *Child) hand() (sandbox.Instance, *access.Grant) {
	c.unwatch()
	c.letGo()
	return c.instance, c.grant
}

// Stats says what the child uses now.
func (c *Child) Stats(ctx context.Context) (sandbox.Stats, error) {
	stats, err := c.instance.Stats(ctx)
	if err != nil {
		return stats, fmt.Errorf("engine: %w", err)
	}
	return stats, nil
}

var errClosed = &sandbox.Error{Class: sandbox.Conflict, Op: "engine", Reason: "the engine is closed"}

// adopt begins to watch a sandbox that was forked.
func (e *Engine) adopt(from *origin, instance sandbox.Instance, n Node) *Child {
	child := &Child{origin: newOrigin(e, from.template, instance, from.resident), node: n,
		client: guest.ClientFor(instance, guest.ClientOptions{})}
	e.tree.add(n)
	e.mu.Lock()
	e.children[child] = true
	e.mu.Unlock()
	child.watch(child.ended)
	return child
}

func (e *Engine) forget(c *Child) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.children, c)
}
