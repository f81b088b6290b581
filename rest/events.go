package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"aether/engine"
	"aether/sandbox"
)

// events sends what has happened after a number, and then what happens, as server-sent
// events. A reader that was cut off goes on with the number of the last one.
func (s *Server) events(a *answer, r *request) error {
	after, err := afterOf(r)
	if err != nil {
		return err
	}
	follow, err := followOf(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	known := ctx
	if !follow {
		// The engine gives what it has to a context that has ended, and waits for nothing.
		var over context.CancelFunc
		known, over = context.WithCancel(ctx)
		over()
	}
	stream := &eventStream{to: a, control: http.NewResponseController(a), stall: s.opts.Limits.Stall, operator: r.who.Operator}
	r.failed = stream.follow(ctx, s.opts.Engine.Events(known, r.who, after))
	if !follow && ctx.Err() != nil {
		return &sandbox.Error{Class: sandbox.Unavailable, Reason: "the history was cut short"}
	}
	return nil
}

// afterOf is the number of the last event that the reader has, zero if none.
func afterOf(r *request) (uint64, error) {
	field, text := "Last-Event-ID", r.Header.Get("Last-Event-ID")
	if text == "" {
		field, text = "after", r.URL.Query().Get("after")
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, sandbox.Invalidf(field, "%.40q is no number of an event", text)
	}
	return n, nil
}

// followOf says whether the answer goes on with what happens.
func followOf(r *request) (bool, error) {
	switch text := r.URL.Query().Get("follow"); text {
	case "", "true":
		return true, nil
	case "false":
		return false, nil
	default:
		return false, sandbox.Invalidf("follow", "%.40q is neither true nor false", text)
	}
}

// eventStream is an answer that goes on.
type eventStream struct {
	to       *answer
	control  *http.ResponseController
	stall    time.Duration
	operator bool
}

// nextEvent is an event, or why there are no more.
type nextEvent struct {
	event engine.Event
	err   error
}

// follow sends events until the context ends, or the reader or the engine fails. A reader
// that takes nothing for too long is given up; it can ask again. Errors: the engine's,
// which is also the last event.
func (e *eventStream) follow(ctx context.Context, all iter.Seq2[engine.Event, error]) error {
	ctx, cancel := context.WithCancel(ctx)
	next := make(chan nextEvent)
	go pass(ctx, all, next)
	defer func() {
		cancel()
		for range next { // until its sender is gone
		}
	}()
	e.to.Header().Set("Content-Type", "text/event-stream")
	e.to.Header().Set("Cache-Control", "no-store")
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	text := ": events\n\n"
	for {
		if err := e.write(text); err != nil {
			return nil // the reader is gone
		}
		select {
		case n, more := <-next:
			if !more || ctx.Err() != nil {
				return nil
			}
			if n.err != nil {
				return errors.Join(n.err, e.write(formatFailure(n.err, e.operator)))
			}
			text = formatEvent(n.event)
		case <-alive.C:
			text = ": alive\n\n"
		case <-ctx.Done():
			return nil
		}
	}
}

// pass hands on what comes until the context ends.
func pass(ctx context.Context, all iter.Seq2[engine.Event, error], to chan<- nextEvent) {
	defer close(to)
	for event, err := range all {
		select {
		case to <- nextEvent{event, err}:
		case <-ctx.Done():
			return
		}
	}
}

func (e *eventStream) write(text string) error {
	if err := e.control.SetWriteDeadline(time.Now().Add(e.stall)); err != nil {
		return err
	}
	if _, err := e.to.Write([]byte(text)); err != nil {
		return err
	}
	return e.control.Flush()
}

// failureEvent is the kind of the last event of a stream that the engine has ended.
const failureEvent = "error"

func formatEvent(event engine.Event) string {
	return fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", event.Number, event.Kind, mustJSON(event))
}

func formatFailure(err error, operator bool) string {
	return fmt.Sprintf("event: %s\ndata: %s\n\n", failureEvent, mustJSON(failureOf(err, operator)))
}

// mustJSON writes what is made of texts, numbers and times alone, which cannot fail.
func mustJSON(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}
