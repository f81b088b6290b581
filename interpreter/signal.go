package interpreter

import (
	"context"
	"syscall"
	"time"

	"aether/guest"
	"aether/sandbox"
)

// signalWait bounds the sending of one signal.
const signalWait = 3 * time.Second

// Interrupt interrupts the call under way, if there is one, as control-C would:
// the interpreter and whatever runs in its process group. State survives. Python
// raises KeyboardInterrupt as soon as it runs Python code again; node stops
// synchronous code of the call itself, and awaiting; bash ends the command and
// everything after it in the call.
func (c *Context) Interrupt(ctx context.Context) error {
	if call := c.current.Load(); call != nil {
		return c.interruptCall(ctx, call)
	}
	return nil
}

// interruptCall interrupts that call and no later one, not before it has begun:
// until then the interpreter is still reading the request.
func (c *Context) interruptCall(ctx context.Context, call *call) error {
	select {
	case <-call.begun:
	case <-call.over:
		return nil
	case <-c.ended:
		return c.end.failure("interpreter: interrupt")
	case <-ctx.Done():
		return &sandbox.Error{Class: sandbox.ClassOf(ctx.Err()), Op: "interpreter: interrupt", Reason: "the call has not begun", Err: ctx.Err()}
	}
	if c.handle.Language.onNode() {
		call.passSynchronous()
	}
	c.signals.Lock()
	defer c.signals.Unlock()
	if c.current.Load() != call {
		return nil
	}
	c.interrupted.Store(true)
	if c.handle.Language.onNode() {
		if err := c.interruptAlone(ctx, call); err != nil {
			return err
		}
	}
	if c.signalGroup(ctx, syscall.SIGINT) {
		return nil
	}
	return c.signalAlone(ctx, syscall.SIGINT)
}

// shortCode is how long synchronous code runs that is interrupted only when it has
// ended.
const shortCode = 50 * time.Millisecond

// passSynchronous waits for the end of the call's synchronous code, if that is near.
// Node lets go of the signal when such code ends, and a moment later takes hold of it
// again for what is awaited: an interrupt in between would end the process. Code that
// runs for longer is interrupted where it is.
func (c *call) passSynchronous() {
	select {
	case <-c.waits:
	case <-c.over:
	case <-time.After(shortCode):
	}
}

// headStart is how long node has to end the call before its children do.
const headStart = 50 * time.Millisecond

// interruptAlone interrupts node before its children. When it learns of the end of
// one that it waits for, it must know that it was interrupted: it has a thread
// notice that, and if that thread is late, the call has ended as if by itself, or
// is cut where V8 cannot bear it.
func (c *Context) interruptAlone(ctx context.Context, call *call) error {
	if err := c.signalAlone(ctx, syscall.SIGINT); err != nil {
		return err
	}
	select {
	case <-call.over:
	case <-time.After(headStart):
	}
	return nil
}

// signalAlone signals the interpreter and nobody else.
func (c *Context) signalAlone(ctx context.Context, sig syscall.Signal) error {
	ctx, cancel := context.WithTimeout(ctx, signalWait)
	defer cancel()
	return c.running.Signal(ctx, sig)
}

// signalGroup signals everything in the interpreter's process group, which the
// guest service cannot do: a foreground child would not learn of an interrupt. It
// says whether it could; a sandbox that is at its limits cannot start a command.
func (c *Context) signalGroup(ctx context.Context, sig syscall.Signal) bool {
	ctx, cancel := context.WithTimeout(ctx, signalWait)
	defer cancel()
	path, args := c.handle.Language.signaller(c.handle.PID, int(sig))
	running, err := c.client.Start(ctx, guest.Cmd{Path: path, Args: args, Env: c.handle.env()})
	if err != nil {
		return false
	}
	status, err := running.Wait()
	return err == nil && status == guest.Status{}
}

func (h Handle) env() map[string]string {
	if h.Path == "" {
		return nil
	}
	return map[string]string{"PATH": h.Path}
}

// kill ends the interpreter at once, and then what it left in its group.
func (c *Context) kill() error {
	ctx := context.Background()
	err := c.signalAlone(ctx, syscall.SIGKILL)
	if sandbox.ClassOf(err) == sandbox.NotFound {
		c.lose()
		err = nil
	}
	c.signalGroup(ctx, syscall.SIGKILL) // of which nothing may be left
	return err
}

// probe finds out that the process has ended although its output is held open,
// by a signal that every process ignores unless it asks for it.
func (c *Context) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	if err := c.running.Signal(ctx, syscall.SIGURG); sandbox.ClassOf(err) == sandbox.NotFound {
		c.lose()
	}
}

// lose stops following a process that has ended while others hold its output.
// Its end, if it is on its way, is waited for a moment.
func (c *Context) lose() {
	select {
	case <-c.ended:
	case <-time.After(silence / 2):
		c.lost.Store(true)
		c.unlink()
	}
}
