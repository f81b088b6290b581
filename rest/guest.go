package rest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"aether/engine"
	"aether/sandbox"
)

const (
	// idleGuest is how long a connection to a guest service is kept for the next request.
	idleGuest     = 10 * time.Second
	maxIdleGuests = 256
	guestChunk    = 32 << 10
)

// guests carries requests to the guest services of sandboxes, over connections that are
// kept for a while: plain, and such of HTTP/2 for the callers who speak that.
type guests struct {
	engine Engine
	plain  *http.Transport
	h2     *http.Transport
}

type whoKey struct{}

// target is for whom a connection is made, and to which instance of which sandbox.
type target struct {
	who      engine.Caller
	id       string
	instance int
}

func newGuests(e Engine) guests {
	return guests{e, newGuestTransport(e, false), newGuestTransport(e, true)}
}

func newGuestTransport(e Engine, h2 bool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2)
	protocols.SetUnencryptedHTTP2(h2)
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			to, ok := ctx.Value(whoKey{}).(target)
			if !ok {
				return nil, &sandbox.Error{Op: "rest: dial", Reason: "nobody asked"}
			}
			return e.Dial(ctx, to.who, to.id)
		},
		Protocols: protocols, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
		MaxIdleConns: maxIdleGuests, MaxIdleConnsPerHost: 4, IdleConnTimeout: idleGuest,
	}
}

func (g guests) close() {
	g.plain.CloseIdleConnections()
	g.h2.CloseIdleConnections()
}

func (s *Server) guest(a *answer, r *request) error {
	return s.guestOf(a, r, target{who: r.who, id: r.PathValue("id")}, r.PathValue("path"))
}

// guestOf carries a request to the guest service of a sandbox and its answer back, both as
// they come. A connection that is kept may have been opened for another caller, or to an
// instance that was paused or rolled back since, so the engine is asked each time.
func (s *Server) guestOf(a *answer, r *request, to target, path string) error {
	box, err := s.opts.Engine.Get(r.Context(), to.who, to.id)
	if err != nil {
		return err
	}
	to.instance = box.Instance
	control := http.NewResponseController(a)
	if r.ProtoMajor == 1 {
		if err := control.EnableFullDuplex(); err != nil {
			return err
		}
	}
	// Whoever carries the body reads from it until it is closed, which may be after the
	// answer has ended.
	defer r.Body.Close()
	if strings.HasPrefix(path, portsPath) {
		defer s.endBody(a, r)()
	}
	res, err := s.guests.send(r, to, path)
	if err != nil {
		err = guestError(r, err) // before the request ends with its connection
		s.endBody(a, r)()
		return err
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode >= 300 && res.StatusCode < 400 {
		return &statusError{&sandbox.Error{Class: sandbox.Unavailable, Op: "guest", Reason: "its service sends its callers elsewhere"}, http.StatusBadGateway}
	}
	if err := s.carry(&sending{a, control, s.patience(r)}, res); err != nil {
		// The guest has broken off, or its reader is gone: nobody's defect.
		return &sandbox.Error{Class: sandbox.Unavailable, Op: "guest", Reason: "the answer was cut short", Err: err}
	}
	return nil
}

// portsPath is where a guest service connects its callers to ports of the sandbox. Such a
// body ends when its sender wants, and not with the answer.
const portsPath = "aether/ports/"

// endBody has the connection end with the answer, which is not begun yet. What it gives
// has nobody wait for more of the body: what is left of that is no request.
func (s *Server) endBody(a *answer, r *request) func() {
	if r.ProtoMajor != 1 {
		return func() {}
	}
	a.Header().Set("Connection", "close")
	if c := connOf(r.Context()); c != nil {
		c.left.Store(true)
	}
	return func() {
		if err := http.NewResponseController(a).SetReadDeadline(time.Now()); err != nil {
			s.log.Warn("rest: the rest of a body is waited for", "err", err)
		}
	}
}

func (g guests) send(r *request, to target, path string) (*http.Response, error) {
	ctx := context.WithValue(r.Context(), whoKey{}, to)
	out := r.Clone(ctx)
	out.URL = &url.URL{Scheme: "http", Host: fmt.Sprintf("%s.%d", to.id, to.instance), Path: "/" + path, RawQuery: r.URL.RawQuery}
	out.Host, out.RequestURI, out.Close = "guest", "", false
	out.Body = io.NopCloser(r.Body) // of which a close would wait for the rest
	if r.ContentLength == 0 {
		out.Body = http.NoBody
	}
	keepHeaders(out.Header)
	if r.ProtoMajor >= 2 {
		return g.h2.RoundTrip(out)
	}
	return g.plain.RoundTrip(out)
}

// guestError tells a sandbox that cannot be reached from one that does not exist: the
// engine's classes are kept, and what failed on the way is the guest's.
func guestError(r *request, err error) error {
	if sandbox.ClassOf(err) != sandbox.Internal || r.Context().Err() != nil {
		return err
	}
	return &statusError{&sandbox.Error{Class: sandbox.Unavailable, Op: "guest", Reason: "its service does not answer", Retry: true, Err: err}, http.StatusBadGateway}
}

// ours are the headers of a request that are about the connection to the door, or prove
// to it who calls; whoever has the sandbox could use what proves it.
var ours = []string{"Connection", "Cookie", "Forwarded", "Keep-Alive", "Origin", "Proxy-Authorization", "Proxy-Connection", "Referer", "Transfer-Encoding", "Upgrade", keyHeader}

func keepHeaders(h http.Header) {
	dropNamed(h)
	wanted := strings.EqualFold(h.Get("Te"), "trailers")
	for _, name := range ours {
		h.Del(name)
	}
	if h.Del("Te"); wanted {
		h.Set("Te", "trailers")
	}
	if text := h.Get("Authorization"); len(text) < 6 || !strings.EqualFold(text[:6], "Basic ") {
		h.Del("Authorization")
	}
}

// dropNamed drops the headers that the Connection header names: they are about this
// connection too.
func dropNamed(h http.Header) {
	for _, line := range h.Values("Connection") {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
}

// commands are the headers of an answer by which a guest could have a browser or another
// client do something in the name of the door, or say what only the door says.
var commands = []string{"Alt-Svc", "Clear-Site-Data", "Connection", "Content-Security-Policy", errorHeader, "Keep-Alive", "Link", "Location", "Nel", "Proxy-Authenticate",
	"Proxy-Connection", "Public-Key-Pins", "Refresh", "Report-To", "Reporting-Endpoints", "Retry-After", "Service-Worker-Allowed", "Set-Cookie", "Sourcemap",
	"Strict-Transport-Security", "Te", "Transfer-Encoding", "Upgrade", "Www-Authenticate"}

func harmless(h http.Header) {
	dropNamed(h)
	for _, name := range commands {
		h.Del(name)
	}
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") || strings.HasPrefix(name, "Cross-Origin-") {
			h.Del(name)
		}
	}
}

// sending is an answer on its way to a reader, who has so long to take each part; zero is
// any time.
type sending struct {
	*answer
	control  *http.ResponseController
	patience time.Duration
}

// patience is without end for the daemon's own user and root, whose pagers and terminals
// stand still for as long as people read.
func (s *Server) patience(r *request) time.Duration {
	if c := connOf(r.Context()); c != nil && c.who != nil && !c.open {
		return 0
	}
	return s.opts.Limits.Stall
}

// carry sends an answer as it comes. If it breaks off, so does the connection.
func (s *Server) carry(a *sending, res *http.Response) error {
	harmless(res.Header)
	h := a.Header()
	maps.Copy(h, res.Header)
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	announced := slices.Sorted(maps.Keys(res.Trailer))
	for _, name := range announced {
		h.Add("Trailer", name)
	}
	a.WriteHeader(res.StatusCode)
	if err := a.pour(res.Body); err != nil {
		return err
	}
	harmless(res.Trailer)
	for name, values := range res.Trailer {
		if !slices.Contains(announced, name) {
			name = http.TrailerPrefix + name
		}
		h[name] = values
	}
	return a.wait() // for what ends the answer
}

// pour copies and lets nothing wait, not the header either. A reader has a while to take
// each part.
func (a *sending) pour(from io.Reader) error {
	part := make([]byte, guestChunk)
	if err := a.hand(nil); err != nil {
		return err
	}
	for {
		n, err := from.Read(part)
		if n > 0 {
			if err := a.hand(part[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (a *sending) hand(part []byte) error {
	if err := a.wait(); err != nil {
		return err
	}
	if _, err := a.Write(part); err != nil {
		return err
	}
	return a.control.Flush()
}

// wait gives the reader the time for the next part.
func (a *sending) wait() error {
	if a.patience == 0 {
		return a.control.SetWriteDeadline(time.Time{})
	}
	return a.control.SetWriteDeadline(time.Now().Add(a.patience))
}
