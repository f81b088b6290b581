package interpreter

import (
	"context"
	"errors"
	"time"

	"aether/sandbox"
)

const (
	// killWait is how long a killed interpreter is waited for.
	killWait = 3 * time.Second
	// silence is after how long without output it is asked for whether a process
	// is still there: children that hold its output keep its end from being seen.
	silence = time.Second
	// graceParts is in how many parts a grace passes, which are counted: on a host that stood
	// still, or that gave nobody a processor for a while, an interpreter had no more of that
	// time than we had.
	graceParts = 8
)

// Run runs code and gives what it gave. An error of the code is in the Result; an
// error of Run says that the call was not answered, and the Result then has what
// came before. It waits while another call is under way.
//
// When ctx ends, the code is interrupted; if it has not ended a grace later, the
// interpreter is killed. Run thus returns by then in any case.
//
// Errors: Invalid for the code; NotFound, or Exhausted if it ran out of memory,
// with an *Ended for an interpreter that has ended; Timeout for a deadline, with
// an *Ended if the interpreter had to be killed.
func (c *Context) Run(ctx context.Context, code string, h Handler) (Result, error) {
	if err := c.handle.Language.validateCode(code); err != nil {
		return Result{}, err
	}
	return c.do(ctx, request{op: "run", payload: code, handler: h})
}

// request is something to be asked of an interpreter.
type request struct {
	op      string
	payload string
	handler Handler
	// gentle leaves the interpreter alone when the context ends.
	gentle bool
}

func (c *Context) do(ctx context.Context, r request) (Result, error) {
	op := "interpreter: " + r.op
	if err := c.acquire(ctx, op); err != nil {
		return Result{}, err
	}
	defer func() { <-c.turn }()
	c.signals.Lock() // a signal for the call before is not for this one
	call := newCall(c.limits, c.life.Done())
	c.current.Store(call)
	c.signals.Unlock()
	defer func() {
		c.current.Store(nil)
		close(call.over)
	}()
	go c.send(c.program + c.handle.Language.request(c.wording(r.op), call.nonce, r.payload))
	c.program = ""
	w := &waiting{Context: c, call: call, collector: collector{handler: r.handler, limits: c.limits}, request: r}
	return w.run(ctx, op)
}

// wording is how an interpreter is asked to run code after it was interrupted: node
// would keep an interrupt that came as its call ended for the next.
func (c *Context) wording(op string) string {
	if op == "run" && c.interrupted.Swap(false) && c.handle.Language.onNode() {
		return "settle"
	}
	return op
}

// acquire waits for the turn.
func (c *Context) acquire(ctx context.Context, op string) error {
	select {
	case <-c.ended:
		return c.end.failure(op)
	default:
	}
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-c.ended:
		return c.end.failure(op)
	case <-ctx.Done():
		return &sandbox.Error{Class: sandbox.ClassOf(ctx.Err()), Op: op, Reason: "another call is under way", Retry: true, Err: context.Cause(ctx)}
	}
}

// send writes to the interpreter's input, which ends with the interpreter.
func (c *Context) send(text string) { _, _ = c.input.Write([]byte(text)) }

// waiting is a call that is waited for.
type waiting struct {
	*Context
	call      *call
	collector collector
	request   request
	cause     error // why it was stopped, if it was
}

func (w *waiting) run(ctx context.Context, op string) (Result, error) {
	scope, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	quiet := time.NewTicker(silence)
	defer quiet.Stop()
	stop, begun := ctx.Done(), w.call.begun
	var grace, giveUp <-chan time.Time
	for passed := 0; ; {
		select {
		case e := <-w.call.events:
			select {
			case <-begun: // before which nothing of the call came
				begun, w.collector.result.Before = nil, w.between.take()
			default:
			}
			quiet.Reset(silence)
			if w.collector.take(e) {
				return w.finish(op)
			}
		case <-begun:
			begun, w.collector.result.Before = nil, w.between.take()
		case <-w.ended:
			return w.died(op)
		case <-quiet.C:
			go w.probe(scope)
		case <-stop:
			if w.cause = context.Cause(ctx); w.request.gentle {
				return w.unanswered(op)
			}
			stop, grace = nil, time.Tick(max(w.opts.grace()/graceParts, 1))
			go w.interruptCall(scope, w.call)
		case <-grace:
			switch passed++; passed {
			case graceParts / 2: // a shell that is just starting a child may miss the first
				go w.interruptCall(scope, w.call)
			case graceParts:
				grace, giveUp = nil, time.After(killWait)
				go w.kill()
			}
		case <-giveUp:
			w.unlink() // the service does not answer either
			<-w.ended
			return w.died(op)
		}
	}
}

// finish gives the answer; that of a call that was stopped comes with the reason.
func (w *waiting) finish(op string) (Result, error) {
	result, err := w.collector.done(w.call.messages.dropped.Load())
	if w.cause != nil {
		err = errors.Join(w.stopped(op, "the call was interrupted and its context lives on", nil), err)
	}
	return result, err
}

func (w *waiting) died(op string) (Result, error) {
	result, err := w.collector.done(w.call.messages.dropped.Load())
	if w.cause != nil {
		return result, errors.Join(w.stopped(op, "the interpreter did not heed the interrupt and was killed", w.end), err)
	}
	return result, errors.Join(w.end.failure(op), err)
}

func (w *waiting) unanswered(op string) (Result, error) {
	return Result{}, w.stopped(op, "the interpreter is busy", nil)
}

func (w *waiting) stopped(op, reason string, end *Ended) error {
	e := &sandbox.Error{Class: sandbox.ClassOf(w.cause), Op: op, Reason: reason, Err: w.cause}
	if end != nil {
		e.Err, e.Remedy = errors.Join(w.cause, end), "start a new context"
	}
	return e
}
