package interpreter

import (
	"encoding/json"
	"errors"
	"io"
)

// Handler gets what a call gives while it runs. A nil field is not wanted. Its
// members are called on the goroutine of Run, one at a time and never after Run
// has returned; while they work, the program waits when its pipe is full.
type Handler struct {
	// Stdout and Stderr get all output, byte for byte. The first error of each is
	// what Run returns in the end, and ends the writing, not the call.
	Stdout, Stderr io.Writer
	// Value gets every value as it is displayed.
	Value func(Value)
}

// collector makes the Result of a call.
type collector struct {
	handler Handler
	limits  Limits
	result  Result
	logs    [2][]byte
	ends    [2]bool
	failed  [2]error // of the handler's writers
}

// take takes one event, and says whether the call is over.
func (c *collector) take(e event) bool {
	switch {
	case e.message == nil:
		c.output(e.stream, e.output)
	case e.message.kind == endKind:
		c.finish(e.stream, e.message.body)
	case e.message.kind == valueKind:
		c.value(e.message.body)
	case e.message.kind == errorKind:
		c.failure(e.message.body)
	}
	return c.ends[stdout] && c.ends[stderr]
}

func (c *collector) output(k kind, data []byte) {
	room := min(c.limits.OutputBytes-len(c.logs[k]), len(data))
	c.logs[k] = append(c.logs[k], data[:room]...)
	*[]*int64{&c.result.Dropped.StdoutBytes, &c.result.Dropped.StderrBytes}[k] += int64(len(data) - room)
	to := []io.Writer{c.handler.Stdout, c.handler.Stderr}[k]
	if to != nil && c.failed[k] == nil {
		_, c.failed[k] = to.Write(data)
	}
}

func (c *collector) value(body []byte) {
	v, ok := parseValue(body)
	if !ok || len(c.result.Values) >= c.limits.Values {
		c.result.Dropped.Values++
		return
	}
	c.result.Values = append(c.result.Values, v)
	if c.handler.Value != nil {
		c.handler.Value(v)
	}
}

// failure takes the first error; a program has only one that ends it.
func (c *collector) failure(body []byte) {
	var e Error
	if c.result.Error != nil {
		return
	}
	if err := json.Unmarshal(body, &e); err != nil {
		e = Error{Name: "Error", Message: "the interpreter's report cannot be read: " + err.Error()}
	}
	c.result.Error = &e
}

func (c *collector) finish(k kind, body []byte) {
	c.ends[k] = true
	var end endBody
	if k == stdout && json.Unmarshal(body, &end) == nil {
		c.result.Status, c.result.Count = end.Status, end.Count
	}
}

// done gives the Result, with what the assembler could not keep.
func (c *collector) done(dropped int64) (Result, error) {
	c.result.Dropped.Values += int(dropped)
	c.result.Logs = Logs{string(c.logs[stdout]), string(c.logs[stderr])}
	return c.result, errors.Join(c.failed[:]...)
}
