package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
)

// classes are all of them, with their names.
var classes = map[Class]string{
	Internal: "internal", Invalid: "invalid", NotFound: "not_found", Conflict: "conflict", Unsupported: "unsupported",
	Unavailable: "unavailable", Exhausted: "exhausted", Denied: "denied", Timeout: "timeout",
}

func TestClassNames(t *testing.T) {
	if len(classes) != len(classNames) {
		t.Errorf("%d classes have %d names", len(classes), len(classNames))
	}
	for c, want := range classes {
		text, err := json.Marshal(c)
		if c.String() != want || string(text) != `"`+want+`"` || err != nil {
			t.Errorf("class %d is %s, in JSON %s, %v; want %s", c, c, text, err, want)
		}
	}
	for c, want := range map[Class]string{-1: "class(-1)", Timeout + 1: "class(9)"} {
		if got := c.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		err  Error
		want string
	}{
		{Error{}, "internal"},
		{Error{Class: Exhausted}, "exhausted"},
		{Error{Class: Denied, Remedy: "ask"}, "denied (ask)"},
		{Error{Op: "cell: create"}, "cell: create"},
		{Error{Field: "id"}, "id"},
		{Error{Reason: "no room"}, "no room"},
		{Error{Err: io.EOF}, "EOF"},
		{Error{Class: Invalid, Field: "id", Reason: "too long"}, "id: too long"},
		{Error{Op: "cell", Reason: "no room", Err: io.EOF}, "cell: no room: EOF"},
		{Error{Op: "cell", Field: "image", Reason: "is bad", Err: io.EOF, Remedy: "use another"}, "cell: image: is bad: EOF (use another)"},
		{Error{Reason: "busy", Retry: true}, "busy"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%#v reads %q, want %q", c.err, got, c.want)
		}
	}
}

func TestClassOf(t *testing.T) {
	invalid := Invalidf("id", "is bad")
	for _, c := range []struct {
		name string
		err  error
		want Class
	}{
		{"our error", invalid, Invalid},
		{"wrapped", fmt.Errorf("cell: %w", invalid), Invalid},
		{"joined", errors.Join(io.EOF, invalid), Invalid},
		{"the outermost decides", &Error{Class: Unavailable, Err: invalid}, Unavailable},
		{"ours before a sentinel within", &Error{Class: Conflict, Err: context.DeadlineExceeded}, Conflict},
		{"ours within, not a sentinel beside", errors.Join(context.DeadlineExceeded, invalid), Invalid},
		{"unsupported by the standard library", fmt.Errorf("x: %w", errors.ErrUnsupported), Unsupported},
		{"deadline", fmt.Errorf("x: %w", context.DeadlineExceeded), Timeout},
		{"cancelled", context.Canceled, Internal},
		{"a stranger's", io.EOF, Internal},
		{"ours without a class", &Error{Reason: "?"}, Internal},
	} {
		if got := ClassOf(c.err); got != c.want {
			t.Errorf("%s: %v is %s, want %s", c.name, c.err, got, c.want)
		}
	}
}

func TestUnsupportedMatchesTheStandardLibrary(t *testing.T) {
	for class := range classes {
		err := fmt.Errorf("driver: %w", &Error{Class: class, Reason: "a reason"})
		if got := errors.Is(err, errors.ErrUnsupported); got != (class == Unsupported) {
			t.Errorf("%s matches errors.ErrUnsupported: %v", class, got)
		}
	}
	if errors.Is(&Error{Class: Unsupported}, io.EOF) {
		t.Error("unsupported matches what it has nothing to do with")
	}
}

func TestErrorKeepsItsCause(t *testing.T) {
	err := fmt.Errorf("outer: %w", &Error{Class: Unavailable, Err: fmt.Errorf("inner: %w", io.ErrUnexpectedEOF)})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("the cause cannot be found")
	}
	if errors.Unwrap(&Error{Class: Timeout}) != nil {
		t.Error("an error without a cause has one")
	}
}

func TestInvalidf(t *testing.T) {
	err := Invalidf("limits.memory", "%d is less than %d", 1, 2)
	checkInvalid(t, err, "limits.memory")
	if want := "limits.memory: 1 is less than 2"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

// checkInvalid checks that err is about one field of the input and says why.
func checkInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var e *Error
	switch {
	case !errors.As(err, &e):
		t.Errorf("%v is not an Error", err)
	case e.Class != Invalid || e.Field != field:
		t.Errorf("%v is %s of %q, want invalid of %q", err, e.Class, e.Field, field)
	case e.Reason == "":
		t.Errorf("%v gives no reason", err)
	case e.Retry:
		t.Errorf("%v claims that the same input may be valid later", err)
	}
}
