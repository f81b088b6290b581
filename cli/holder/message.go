package holder

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"aether/engine"
	"aether/interpreter"
	"aether/sandbox"
)

// Bounds of what is read from the other end: the body of a request or a failure, that
// of an answer, which has all forks in it, and the headers of either.
const (
	maxRequest = 1 << 20
	maxAnswer  = 64 << 20
	maxHeader  = 64 << 10
)

// Info is what a holder says of its template.
type Info struct {
	Name     string           `json:"name"`
	ID       string           `json:"sandbox"`
	Holder   int              `json:"holder"`
	Driver   string           `json:"driver"`
	Boundary sandbox.Boundary `json:"boundary"`
	Fidelity sandbox.Fidelity `json:"fork_fidelity"`
	// Frozen says that it stands still between its forks.
	Frozen   bool          `json:"frozen"`
	Prepared time.Time     `json:"prepared"`
	Took     time.Duration `json:"prepare_ns"`
	Recipe   engine.Recipe `json:"recipe"`
	Stats    sandbox.Stats `json:"stats"`
	// Pool is how its pool does, if it has one.
	Pool *engine.PoolStats `json:"pool,omitempty"`
	// Tree is who was forked from whom, oldest first.
	Tree []engine.Node `json:"tree"`
}

// forkRequest asks for a child.
type forkRequest struct {
	Spec sandbox.Spec `json:"spec"`
}

// born is a child that was forked.
type born struct {
	ID       string              `json:"id"`
	Resident int                 `json:"resident"`
	Handle   *interpreter.Handle `json:"handle,omitempty"`
	Took     time.Duration       `json:"took_ns"`
}

// Failure is an error on the wire, with its whole text.
type Failure struct {
	Class  string `json:"class"`
	Reason string `json:"reason"`
	Retry  bool   `json:"retry,omitempty"`
}

// FailureOf puts an error on the wire.
func FailureOf(err error) Failure {
	f := Failure{Class: sandbox.ClassOf(err).String(), Reason: err.Error()}
	var e *sandbox.Error
	f.Retry = errors.As(err, &e) && e.Retry
	return f
}

// Err gives an error of the same class and text.
func (f Failure) Err() error {
	e := &sandbox.Error{Reason: f.Reason, Retry: f.Retry}
	for class := sandbox.Internal; class <= sandbox.Timeout; class++ {
		if class.String() == f.Class {
			e.Class = class
		}
	}
	return e
}

// statuses are for people with curl; programs read the body.
var statuses = map[sandbox.Class]int{sandbox.Invalid: http.StatusBadRequest, sandbox.NotFound: http.StatusNotFound, sandbox.Conflict: http.StatusConflict}

func writeError(w http.ResponseWriter, err error) {
	status, ok := statuses[sandbox.ClassOf(err)]
	if !ok {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A client that has gone is told nothing.
	_ = json.NewEncoder(w).Encode(FailureOf(err))
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
