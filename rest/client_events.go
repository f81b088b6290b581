package rest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"

	"aether/engine"
	"aether/sandbox"
)

// maxEventLine bounds a line of a stream of events.
const maxEventLine = 1 << 20

// Events gives the history after a number, and then what happens until the context ends.
// An error is the last that comes; whoever goes on does so after the last event's number.
// Errors: Unavailable if the daemon has ended.
func (c *Client) Events(ctx context.Context, after uint64) iter.Seq2[engine.Event, error] {
	return c.events(ctx, after, "")
}

// History gives the history after a number alone.
func (c *Client) History(ctx context.Context, after uint64) iter.Seq2[engine.Event, error] {
	return c.events(ctx, after, "follow=false")
}

func (c *Client) events(ctx context.Context, after uint64, query string) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		res, err := c.send(ctx, call{op: "events", method: http.MethodGet, path: "/v1/events", query: query,
			headers: map[string]string{"Last-Event-ID": strconv.FormatUint(after, 10)}})
		if err != nil {
			yield(engine.Event{}, err)
			return
		}
		defer res.Body.Close()
		err = readEvents(res.Body, func(e engine.Event) bool { return yield(e, nil) })
		switch {
		case errors.Is(err, errEnough) || ctx.Err() != nil:
		case err == io.EOF && query != "":
		case sandbox.ClassOf(err) != sandbox.Internal:
			yield(engine.Event{}, err)
		default:
			yield(engine.Event{}, c.failed(ctx, "events", err))
		}
	}
}

var errEnough = errors.New("the reader has enough")

// readEvents reads a stream of events to its end, which is always an error: io.EOF if
// nothing was cut off.
func readEvents(from io.Reader, yield func(engine.Event) bool) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 4<<10), maxEventLine)
	kind, data := "", []byte(nil)
	for lines.Scan() {
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(lines.Bytes()) > 0 && string(name) == "event":
			kind = string(value)
		case len(lines.Bytes()) > 0 && string(name) == "data":
			data = bytes.Clone(value)
		case len(lines.Bytes()) == 0 && data != nil:
			if err := oneEvent(kind, data, yield); err != nil {
				return err
			}
			kind, data = "", nil
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.EOF
}

func oneEvent(kind string, data []byte, yield func(engine.Event) bool) error {
	if kind == failureEvent {
		var f Failure
		if err := json.Unmarshal(data, &f); err != nil {
			return fmt.Errorf("rest: an event: %w", err)
		}
		return errorOf("events", f)
	}
	var e engine.Event
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("rest: an event: %w", err)
	}
	if !yield(e) {
		return errEnough
	}
	return nil
}
