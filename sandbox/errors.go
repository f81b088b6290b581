package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Class says what kind of failure an error is. Front doors map it once, to an
// exit code, an HTTP status or an MCP error; nobody matches on texts.
type Class int

const (
	// Internal is a defect of Aether or of the host; the zero value, so that an
	// error nobody classified is never mistaken for the caller's fault.
	Internal Class = iota
	// Invalid is input that no host could satisfy; Field names the part at fault.
	Invalid
	// NotFound: the sandbox, image, process or path does not exist (any more).
	NotFound
	// Conflict: it exists already, or is not in a state that allows the verb.
	Conflict
	// Unsupported: this driver never can; errors.Is(err, errors.ErrUnsupported).
	Unsupported
	// Unavailable: this host, or a service on it, cannot now; Remedy says what
	// would mend it.
	Unavailable
	// Exhausted: a limit, a quota or a resource of the host is used up.
	Exhausted
	// Denied: the caller may not.
	Denied
	// Timeout: it took longer than was allowed.
	Timeout
)

var classNames = [...]string{"internal", "invalid", "not_found", "conflict", "unsupported", "unavailable", "exhausted", "denied", "timeout"}

func (c Class) String() string {
	if c < 0 || int(c) >= len(classNames) {
		return fmt.Sprintf("class(%d)", int(c))
	}
	return classNames[c]
}

// MarshalText makes classes read as their names in JSON.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Error is a failure that a caller may decide on.
type Error struct {
	Class Class
	// Op is what was being done, as "cell: create".
	Op string
	// Field names the input at fault, for Invalid.
	Field string
	// Reason says what is wrong, in words that need no source code at hand.
	Reason string
	// Remedy says what the reader can do about it, or is empty.
	Remedy string
	// Retry says that the same call may succeed later with nothing changed.
	Retry bool
	// After is how long to wait before that, where something is known about it.
	After time.Duration
	// Err is the cause, or nil.
	Err error
}

func (e *Error) Error() string {
	var b strings.Builder
	part := func(s string) {
		if s == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(s)
	}
	part(e.Op)
	part(e.Field)
	part(e.Reason)
	if e.Err != nil {
		part(e.Err.Error())
	}
	if b.Len() == 0 {
		b.WriteString(e.Class.String())
	}
	if e.Remedy != "" {
		b.WriteString(" (" + e.Remedy + ")")
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes every Unsupported error match errors.ErrUnsupported, so that callers
// need not know this package to ask.
func (e *Error) Is(target error) bool {
	return target == errors.ErrUnsupported && e.Class == Unsupported
}

// ClassOf finds the class of any error: the outermost Error in its chain, else
// what the standard library's sentinels say, else Internal.
func ClassOf(err error) Class {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Class
	case errors.Is(err, errors.ErrUnsupported):
		return Unsupported
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	return Internal
}

// Invalidf is the common case of an error about one field of the input.
func Invalidf(field, format string, args ...any) *Error {
	return &Error{Class: Invalid, Field: field, Reason: fmt.Sprintf(format, args...)}
}
