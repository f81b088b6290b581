package interpreter

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"aether/guest"
	"aether/sandbox"
)

// Context is one interpreter that runs in a sandbox. It may be used by many at
// once: a call waits for its turn until its own context ends, as the cells of a
// notebook do.
type Context struct {
	client  *guest.Client
	handle  Handle
	opts    Options
	limits  Limits
	running *guest.Running
	life    context.Context    // of the connection
	unlink  context.CancelFunc // ends the connection, not the process
	input   *io.PipeWriter
	program string // to be sent before the first request

	turn    chan struct{} // held by the call under way
	signals sync.Mutex    // held while a signal is on its way
	current atomic.Pointer[call]
	// interrupted says that a call was, and that no code was run since.
	interrupted atomic.Bool

	between between

	lost atomic.Bool // it has ended, but others hold its output
	// detached says that it is not followed any more, and may go on.
	detached atomic.Bool
	ended    chan struct{} // closed once end is known
	end      *Ended
}

// Handle names an interpreter for Attach. It is a secret as far as the sandbox
// is: who has it and reaches the sandbox may run code in the context.
type Handle struct {
	PID      int      `json:"pid"`
	Language Language `json:"language"`
	// Key marks the replies of this context.
	Key string `json:"key"`
	// Path is the search path of the interpreter, where it has one of its own.
	Path string `json:"path,omitempty"`
}

func (h Handle) validate() error {
	if err := h.Language.validate(); err != nil {
		return err
	}
	if key, err := hex.DecodeString(h.Key); err != nil || 2*len(key) != tokenSize || hex.EncodeToString(key) != h.Key {
		return sandbox.Invalidf("key", "it is not %d lower-case hexadecimal digits", tokenSize)
	}
	if h.PID < 1 {
		return sandbox.Invalidf("pid", "%d is not a process", h.PID)
	}
	return nil
}

// Handle gives what Attach needs to find this interpreter, or its copy in a
// sandbox that was forked from this one.
func (c *Context) Handle() Handle { return c.handle }

// Language is what the context runs.
func (c *Context) Language() Language { return c.handle.Language }

// Done is closed when the interpreter has ended or was detached from.
func (c *Context) Done() <-chan struct{} { return c.ended }

func newToken() string {
	token := make([]byte, tokenSize/2)
	rand.Read(token) // it never fails: it ends the program instead
	return hex.EncodeToString(token)
}

func newContext(client *guest.Client, opts Options, handle Handle) *Context {
	return &Context{client: client, handle: handle, opts: opts, limits: opts.Limits.withDefaults(),
		turn: make(chan struct{}, 1), ended: make(chan struct{})}
}

// streams makes the command's ends: what it reads, and where its output goes.
func (c *Context) streams(cmd *guest.Cmd) (out, errs *stream) {
	var input *io.PipeReader
	input, c.input = io.Pipe()
	out, errs = newStream(c, stdout), newStream(c, stderr)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, out.splitter, errs.splitter
	return out, errs
}

// follow carries the output until the process has ended.
func (c *Context) follow(running *guest.Running, out, errs *stream) {
	status, err := running.Wait()
	out.flush()
	errs.flush()
	c.end = &Ended{Language: c.handle.Language, Output: tail(c.between.take().Stderr)}
	switch {
	case err == nil:
		c.end.Status = &status
	case c.detached.Load():
		c.end.Err = errDetached
	case !c.lost.Load():
		c.end.Err = err
	}
	close(c.ended)
	c.input.CloseWithError(errGone)
	c.unlink()
}

// errGone ends the input without closing that of the process.
var errGone = errors.New("the interpreter is not followed any more")

// errDetached is what calls get of a context that was detached.
var errDetached = &sandbox.Error{Class: sandbox.Conflict, Reason: "this context was detached from it", Remedy: "attach to it again"}

// maxTail is how much of its last words an error quotes.
const maxTail = 1 << 10

func tail(text string) string {
	if len(text) <= maxTail {
		return text
	}
	return "..." + text[len(text)-maxTail:]
}

// Detach stops following the interpreter, which goes on; Attach finds it again. A
// call under way is not answered any more.
func (c *Context) Detach() {
	c.detached.Store(true)
	c.unlink()
	<-c.ended
}
