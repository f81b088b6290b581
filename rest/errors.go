package rest

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"aether/sandbox"
)

// errorHeader marks the refusals of the door on paths where a guest service answers too.
const errorHeader = "Aether-Error"

// Failure is the body of every refusal.
type Failure struct {
	Class  string `json:"class"`
	Field  string `json:"field,omitempty"`
	Reason string `json:"reason"`
	Remedy string `json:"remedy,omitempty"`
	// Retry says that the same request may succeed later, after so long if that is known.
	Retry   bool  `json:"retry"`
	AfterMS int64 `json:"retry_after_ms,omitempty"`
}

// statuses is the one place where classes become statuses.
var statuses = [...]int{
	sandbox.Internal: http.StatusInternalServerError, sandbox.Invalid: http.StatusBadRequest,
	sandbox.NotFound: http.StatusNotFound, sandbox.Conflict: http.StatusConflict,
	sandbox.Unsupported: http.StatusNotImplemented, sandbox.Unavailable: http.StatusServiceUnavailable,
	sandbox.Exhausted: http.StatusTooManyRequests, sandbox.Denied: http.StatusForbidden,
	sandbox.Timeout: http.StatusGatewayTimeout,
}

// statusError is an error for which HTTP has a word of its own.
type statusError struct {
	error
	status int
}

func (e *statusError) Unwrap() error { return e.error }

func unauthenticated(reason, remedy string) error {
	return &statusError{&sandbox.Error{Class: sandbox.Denied, Reason: reason, Remedy: remedy}, http.StatusUnauthorized}
}

func statusOf(err error) int {
	var special *statusError
	if errors.As(err, &special) {
		return special.status
	}
	return statuses[sandbox.ClassOf(err)]
}

// failureOf is what callers are told. What nobody has classed is a defect, whose text
// may hold names of the host: it goes to the log, and to operators.
func failureOf(err error, operator bool) Failure {
	class := sandbox.ClassOf(err)
	f := Failure{Class: class.String(), Reason: err.Error()}
	var e *sandbox.Error
	if errors.As(err, &e) {
		f.Field, f.Remedy, f.Retry, f.AfterMS = e.Field, e.Remedy, e.Retry, waitMS(e.After)
		f.Reason = reasonOf(e)
	}
	if class == sandbox.Internal && !operator {
		f.Reason, f.Field, f.Remedy = "the daemon failed", "", "ask its operator, whose log has the reason"
	}
	return f
}

func reasonOf(e *sandbox.Error) string {
	var parts []string
	for _, part := range []string{e.Op, e.Reason} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	if len(parts) == 0 {
		return e.Class.String()
	}
	return strings.Join(parts, ": ")
}

func waitMS(after time.Duration) int64 {
	return int64(math.Ceil(float64(after) / float64(time.Millisecond)))
}

// fail answers with an error, unless an answer has begun: then the connection is cut,
// so that nobody takes what was sent for the whole.
func (s *Server) fail(w *answer, r *request, err error) {
	r.failed = err
	if sandbox.ClassOf(err) == sandbox.Internal && r.Context().Err() == nil {
		s.log.Error("rest: request failed", "operation", r.route.name, "caller", r.who.Name, "error", err)
	}
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	f := failureOf(err, r.who.Operator)
	w.Header().Set(errorHeader, f.Class)
	if f.AfterMS > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt((f.AfterMS+999)/1000, 10))
	}
	status := statusOf(err)
	if r.route.refuse != nil {
		s.patient(w)
		r.route.refuse(w, r.Request, status, f)
		return
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	s.write(w, status, mustJSON(f), "application/json")
}

// errorOf is the inverse of failureOf, for the client.
func errorOf(op string, f Failure) error {
	return &sandbox.Error{Class: classOf(f.Class), Op: op, Field: f.Field, Reason: f.Reason, Remedy: f.Remedy, Retry: f.Retry,
		After: time.Duration(min(max(f.AfterMS, 0), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond}
}

func classOf(name string) sandbox.Class {
	for class := range statuses {
		if sandbox.Class(class).String() == name {
			return sandbox.Class(class)
		}
	}
	return sandbox.Internal
}
