package interpreter

import (
	"fmt"

	"aether/guest"
	"aether/sandbox"
)

// Ended says how an interpreter ended. It is the cause of the error of every call
// that it did not answer; find it with errors.As.
type Ended struct {
	Language Language
	// Status is how the process ended; nil if that is not known.
	Status *guest.Status
	// Err is why it is not known, or nil.
	Err error
	// Output is the last of what it wrote to standard error outside of a call, as
	// an interpreter that cannot start does.
	Output string
}

func (e *Ended) Error() string {
	if e.Err == errDetached {
		return string(e.Language) + ": " + errDetached.Error()
	}
	text := string(e.Language) + " has ended: "
	switch s := e.Status; {
	case s == nil && e.Err != nil:
		text += "how is not known: " + e.Err.Error()
	case s == nil:
		text += "how is not known, for processes that it left behind hold its output"
	case s.OutOfMemory:
		text += "out of memory"
	case s.Signal != 0:
		text += "signal: " + s.Signal.String()
	default:
		text += fmt.Sprintf("exit status %d", s.Code)
	}
	if e.Output != "" {
		text += fmt.Sprintf(": %q", e.Output)
	}
	return text
}

// Unwrap gives the cause.
func (e *Ended) Unwrap() error { return e.Err }

// failure is the error of a call that an interpreter that has ended cannot answer.
func (e *Ended) failure(op string) error {
	class := sandbox.NotFound
	switch {
	case e.Err == errDetached:
		return &sandbox.Error{Class: sandbox.Conflict, Op: op, Err: e}
	case e.Status != nil && e.Status.OutOfMemory:
		class = sandbox.Exhausted
	case e.Status == nil && e.Err != nil:
		class = sandbox.ClassOf(e.Err)
	}
	return &sandbox.Error{Class: class, Op: op, Err: e, Remedy: "start a new context"}
}
