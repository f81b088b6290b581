package tool

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"aether/sandbox"
)

// Failure is why a call did nothing, or not all of it, and what to do next.
type Failure struct {
	// Class is that of the error, as "not_found".
	Class string `json:"class"`
	// Field names the argument at fault.
	Field  string `json:"field,omitempty"`
	Reason string `json:"reason"`
	// Retry says that the same call may succeed later, after so long if that is known.
	Retry        bool   `json:"retry"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	Remedy       string `json:"remedy"`
	// Next is a call that is likely to help.
	Next *Next `json:"next,omitempty"`
}

// Next is a call to make.
type Next struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
}

// advice is an error with the call that is likely to help.
type advice struct {
	error
	next Next
}

func (a *advice) Unwrap() error { return a.error }

// advise says which call is likely to help if there was an error of one of the classes.
func advise(err error, classes []sandbox.Class, tool string, arguments map[string]any) error {
	if err == nil || !slices.Contains(classes, sandbox.ClassOf(err)) {
		return err
	}
	return &advice{err, Next{tool, arguments}}
}

// remedies are what to do about errors that do not say.
var remedies = map[sandbox.Class]string{
	sandbox.Invalid:     "correct the argument that field names, and call again",
	sandbox.NotFound:    "check the id or path; what has ended is not found any more",
	sandbox.Conflict:    "look at the state first, then call again with what it allows",
	sandbox.Unsupported: "another driver may; system_list says which",
	sandbox.Unavailable: "call again later; system_doctor says what this host lacks",
	sandbox.Exhausted:   "destroy what is not needed any more, or wait",
	sandbox.Denied:      "ask whoever runs the engine",
	sandbox.Timeout:     "give it more time, or start it in the background",
	sandbox.Internal:    "it is a defect: tell whoever runs the engine, and do not repeat the call",
}

const maxReason = 1000

// failureOf is what a caller is told. What nobody has classed is a defect, whose text may
// hold names of the host: only those are told who run it.
func failureOf(err error, reveal bool) *Failure {
	class := sandbox.ClassOf(err)
	f := &Failure{Class: class.String(), Reason: err.Error()}
	for e := range sandboxErrors(err) {
		if f.Field == "" {
			f.Field = e.Field
		}
		if f.Remedy == "" {
			f.Remedy = e.Remedy
		}
		f.Retry = f.Retry || e.Retry
		f.RetryAfterMS = max(f.RetryAfterMS, int64(math.Ceil(float64(e.After)/float64(time.Millisecond))))
	}
	if f.Remedy != "" {
		f.Reason = strings.ReplaceAll(f.Reason, " ("+f.Remedy+")", "")
	}
	if class == sandbox.Internal && !reveal {
		f.Field, f.Reason, f.Remedy = "", "the engine failed", ""
	}
	if f.Remedy == "" {
		f.Remedy = remedies[class]
	}
	f.Reason, f.Remedy, f.Field = clip(f.Reason, maxReason), clip(f.Remedy, maxReason), clip(f.Field, 80)
	var a *advice
	if errors.As(err, &a) {
		f.Next = &a.next
	}
	return f
}

// sandboxErrors gives those in a chain, outermost first.
func sandboxErrors(err error) func(func(*sandbox.Error) bool) {
	return func(yield func(*sandbox.Error) bool) {
		var e *sandbox.Error
		for errors.As(err, &e) {
			if !yield(e) {
				return
			}
			err = e.Err
		}
	}
}

// Result is the answer to a call.
type Result struct {
	// Value is what the tool gave, unless Failure says why it failed.
	Value   any
	Failure *Failure
}

// MarshalJSON gives the value, or {"error": ...}.
func (r Result) MarshalJSON() ([]byte, error) {
	if r.Failure != nil {
		return json.Marshal(map[string]*Failure{"error": r.Failure})
	}
	return json.Marshal(r.Value)
}
