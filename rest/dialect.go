package rest

import (
	"encoding/json"
	"net/http"
	"time"

	"aether/engine"
	"aether/sandbox"
)

// Dialect is another API on the same listeners. What it answers is counted, audited and
// bounded as /v1 is.
type Dialect interface {
	// Operations are what it answers by path.
	Operations() []Operation
	// Direct gives the operation for a request that is for something inside a sandbox, as
	// its host or its headers say; nil for any other.
	Direct(*http.Request) *Operation
}

// Operation is one thing that a dialect can be asked for.
type Operation struct {
	// Pattern is that of http.ServeMux, and Name what metrics and the audit trail call it.
	Pattern, Name string
	// Who knows the caller, where that is not by a key of the daemon's. An error of the
	// class Denied is a wrong proof, of which an address may send so many.
	Who func(*http.Request) (engine.Caller, error)
	// Do answers.
	Do func(*Visit) error
	// Lasts says that it may last as long as its caller wants.
	Lasts bool
	// Refuse says no in the words of the dialect.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, why Failure)
}

func (o *Operation) route() *route {
	rt := &route{name: o.Name, who: o.Who, refuse: o.Refuse}
	visit := func(s *Server, a *answer, r *request) error { return o.Do(&Visit{r.Request, a, r.who, s, r}) }
	if o.Lasts {
		rt.stream = visit
	} else {
		rt.do = func(s *Server, a *answer, r *request) (any, error) { return answered, visit(s, a, r) }
	}
	return rt
}

// answered is the value of a route that has written its answer itself.
var answered = new(int)

// teach adds what a dialect answers by path.
func (s *Server) teach(mux *http.ServeMux, d Dialect) {
	for _, op := range d.Operations() {
		rt := op.route()
		mux.HandleFunc(op.Pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(rt, w, r) })
	}
}

// callerOf has a dialect find out who calls, and bounds how often that may be.
func (s *Server) callerOf(r *request) (engine.Caller, error) {
	who, err := r.route.who(r.Request)
	if sandbox.ClassOf(err) == sandbox.Denied {
		return who, s.refuseStranger(r.Request, err)
	}
	if err != nil {
		return who, err
	}
	return who, s.requests.take(who.Name, time.Now())
}

// Visit is a request to a dialect, and its answer.
type Visit struct {
	*http.Request
	Writer http.ResponseWriter
	Who    engine.Caller

	server  *Server
	request *request
}

// About names the sandbox that the audit trail says the request is about.
func (v *Visit) About(id string) { v.request.sandbox = id }

// Body reads JSON into a value and passes over what that does not know: clients of others
// send more with every version. An absent body leaves the value as it is. Errors: Invalid;
// Timeout.
func (v *Visit) Body(into any) error {
	text, err := v.server.receive(v.Writer, v.request, v.server.opts.Limits.BodyBytes)
	if err != nil || len(text) == 0 {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return malformed(err)
	}
	return nil
}

// Answer sends a value as JSON, or nothing if it is nil.
func (v *Visit) Answer(status int, body any) error {
	return v.server.writeJSON(v.request.answer(v.Writer), status, body)
}

// Creation has room for one more of what takes long to make, until leave is called. Errors:
// Exhausted.
func (v *Visit) Creation() (leave func(), err error) {
	return v.server.creations.enter(v.Who.Name)
}

// IdempotencyKey is that of the request, which is empty for most. Errors: Invalid.
func (v *Visit) IdempotencyKey() (string, error) { return idempotencyKey(v.request) }

// Failure is an error of what goes on after the request, as the caller may be told of it.
// The log has what is the daemon's own fault.
func (v *Visit) Failure(err error) Failure {
	if sandbox.ClassOf(err) == sandbox.Internal {
		v.server.log.Error("rest: failed", "operation", v.request.route.name, "who", v.Who.Name, "err", err)
	}
	return failureOf(err, v.Who.Operator)
}

// Guest carries the request to a path of a sandbox's guest service, and the answer back.
// Keys and tokens do not go there.
func (v *Visit) Guest(id, path string) error {
	return v.server.guestOf(v.request.answer(v.Writer), v.request, target{who: v.Who, id: id}, path)
}

// Patience is how long a reader may take for each part of an answer.
func (v *Visit) Patience() time.Duration { return v.server.opts.Limits.Stall }

// answer is the one that the server has made of a writer.
func (r *request) answer(w http.ResponseWriter) *answer {
	if a, ok := w.(*answer); ok {
		return a
	}
	return &answer{ResponseWriter: w}
}

// Refusal is an error that a dialect has a status of its own for.
func Refusal(status int, err error) error { return &statusError{err, status} }
