package rest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"aether/engine"
	"aether/internal/unread"
	"aether/sandbox"
)

// request is one that has a route.
type request struct {
	*http.Request
	route   *route
	who     engine.Caller
	sandbox string // for the audit trail
	failed  error
}

// answer notes the status of what is answered.
type answer struct {
	http.ResponseWriter
	status int
	body   *unread.Body
	both   bool // it may begin before the body has ended
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.begin(status)
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.begin(http.StatusOK)
	return a.ResponseWriter.Write(b)
}

// begin notes how an answer begins.
func (a *answer) begin(status int) {
	if a.status != 0 || status < http.StatusOK { // after which another comes
		return
	}
	a.status = status
	if a.both {
		a.body.CloseAfter(a.Header())
	}
}

// EnableFullDuplex is for http.ResponseController.
func (a *answer) EnableFullDuplex() error {
	a.both = true
	return http.NewResponseController(a.ResponseWriter).EnableFullDuplex()
}

// Hijack is for http.ResponseController. Who takes the connection over answers by themselves,
// as a port that becomes a WebSocket.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err == nil {
		a.status = http.StatusSwitchingProtocols
	}
	return conn, both, err
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (s *Server) serve(rt *route, w http.ResponseWriter, req *http.Request) {
	req, body := unread.Of(req)
	a := &answer{ResponseWriter: w, body: body}
	r := &request{Request: req, route: rt, sandbox: objectOf(rt, req)}
	started := time.Now()
	defer func() {
		p := recover()
		s.finish(a, r, started)
		s.fall(r, p)
	}()
	if err := s.run(a, r); err != nil {
		s.fail(a, r, err)
	}
}

// objectOf is what the audit trail says that a request is about. What cannot name a secret
// is left out: it may be the value, in the wrong place.
func objectOf(rt *route, req *http.Request) string {
	name := cmp.Or(req.PathValue("id"), req.PathValue("name"))
	if strings.HasPrefix(rt.path, secretsPath) && !engine.IsSecretName(name) {
		return ""
	}
	return name
}

// fall goes on with a panic, of which the log has been told unless it only cuts the
// connection.
func (s *Server) fall(r *request, p any) {
	if p == nil {
		return
	}
	if p != http.ErrAbortHandler {
		s.log.Error("rest: panic", "operation", r.route.name, "panic", p, "stack", string(debug.Stack()))
	}
	panic(http.ErrAbortHandler)
}

func (s *Server) run(a *answer, r *request) error {
	if err := s.admit(r); err != nil {
		return err
	}
	if r.route.stream != nil {
		leave, err := s.streams.enter(r.who.Name)
		if err != nil {
			return err
		}
		defer leave()
		return r.route.stream(s, a, r)
	}
	body, err := r.route.do(s, a, r)
	if err != nil || body == answered {
		return err
	}
	return s.writeJSON(a, r.route.status, body)
}

// admit finds out who calls and whether the route is for them. Ids that nothing can have
// are told from others by nobody but the door.
func (s *Server) admit(r *request) (err error) {
	if r.route.access == anyone {
		return nil
	}
	if r.route.who != nil {
		r.who, err = s.callerOf(r)
	} else {
		r.who, err = s.Caller(r.Request)
	}
	if err != nil {
		return err
	}
	if r.route.access == operators && !r.who.Operator {
		return &sandbox.Error{Class: sandbox.Denied, Reason: "only operators may"}
	}
	if id := r.PathValue("id"); id != "" && !sandbox.IsName(id, maxID) {
		r.sandbox = ""
		return &sandbox.Error{Class: sandbox.NotFound, Reason: "nothing has such an id"}
	}
	return nil
}

const maxID = 64

// writeJSON answers with a value, or nothing if that is nil. Errors: a value that cannot
// be written.
func (s *Server) writeJSON(a *answer, status int, body any) error {
	if body == nil {
		s.write(a, status, nil, "")
		return nil
	}
	text, err := json.Marshal(body)
	if err == nil {
		s.write(a, status, text, "application/json")
	}
	return err
}

// write sends a whole answer, which its reader has to take in time. That the reader is
// gone is nobody's error.
func (s *Server) write(a *answer, status int, text []byte, kind string) {
	control := s.patient(a)
	h := a.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if text != nil {
		h.Set("Content-Type", kind)
		h.Set("Content-Length", strconv.Itoa(len(text)))
	}
	a.WriteHeader(status)
	if _, err := a.Write(text); err != nil {
		return
	}
	_ = control.Flush()
}

// patient gives the reader of what is written next so long to take it.
func (s *Server) patient(a *answer) *http.ResponseController {
	control := http.NewResponseController(a)
	if err := control.SetWriteDeadline(time.Now().Add(s.opts.Limits.Stall)); err != nil {
		panic(http.ErrAbortHandler) // nothing that can be written to without end
	}
	return control
}

// finish counts a request and tells the audit trail of it.
func (s *Server) finish(a *answer, r *request, started time.Time) {
	took := time.Since(started)
	if a.status == 0 { // a panic, or a connection that was cut
		a.status = http.StatusInternalServerError
	}
	s.metrics.count(r.route, a.status, took)
	many := (*flood)(nil)
	if s.opts.Audit == nil || r.route.access == anyone || r.route.told && r.failed == nil || errors.As(r.failed, &many) {
		return
	}
	s.opts.Audit(Call{Time: started, Who: r.who, From: r.RemoteAddr, Operation: r.route.name, Sandbox: r.sandbox, Status: a.status, Err: r.failed, Took: took})
}
