package rest

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"aether/engine"
	"aether/sandbox"
)

const (
	keyHeader = "X-API-Key"
	bearer    = "Bearer "
	maxKey    = 256

	// wrongKeys is how many wrong keys a second of one address are answered and
	// audited each; more are only counted.
	wrongKeys = 20
)

// keyOf is the key that a request brings. A Basic authorization is for guest services,
// which take the name of a user from it.
func keyOf(h http.Header) string {
	if key := h.Get(keyHeader); key != "" {
		return key
	}
	if text := h.Get("Authorization"); len(text) > len(bearer) && strings.EqualFold(text[:len(bearer)], bearer) {
		return text[len(bearer):]
	}
	return ""
}

// Caller finds out who sent a request: whose key it brings, or else who is at the other
// end of its connection. Errors: Denied; Exhausted if a key is used too often.
func (s *Server) Caller(r *http.Request) (engine.Caller, error) {
	if err := s.sameOrigin(r); err != nil {
		return engine.Caller{}, err
	}
	if key := keyOf(r.Header); key != "" {
		return s.byKey(r, key)
	}
	if c := connOf(r.Context()); c != nil && c.who != nil {
		return *c.who, nil
	}
	return engine.Caller{}, s.refuseStranger(r, unauthenticated("the request brings no key", "send one as "+keyHeader))
}

func (s *Server) byKey(r *http.Request, key string) (engine.Caller, error) {
	if s.opts.Keys == nil || len(key) > maxKey {
		return engine.Caller{}, s.refuseStranger(r, errWrongKey())
	}
	who, err := s.opts.Keys.Authenticate(r.Context(), key)
	if sandbox.ClassOf(err) == sandbox.Denied {
		return engine.Caller{}, s.refuseStranger(r, errWrongKey())
	}
	if err != nil {
		return engine.Caller{}, err
	}
	return who, s.requests.take(who.Name, time.Now())
}

// errWrongKey does not say whether there was ever such a key.
func errWrongKey() error {
	return unauthenticated("the key is wrong, or no longer good", "have a key made by the daemon's operator")
}

// refuseStranger gives the refusal, or another one if there were many.
func (s *Server) refuseStranger(r *http.Request, refusal error) error {
	if err := s.strangers.take(network(r.RemoteAddr), time.Now()); err != nil {
		return &flood{err}
	}
	return refusal
}

// flood is a refusal of somebody unknown that there are too many of to tell of each.
type flood struct{ error }

func (f *flood) Unwrap() error { return f.error }

// network is where an address is: a host of version 4, or whoever has 64 bits of version 6.
func network(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.Unmap().Is6() {
		return host
	}
	prefix, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return host
	}
	return prefix.String()
}

// sameOrigin refuses what a page of another site has a browser send here. Where anybody
// is an operator, the request must also name this host: a page could have the name of
// its own site lead here.
func (s *Server) sameOrigin(r *http.Request) error {
	if err := s.origin.Check(r); err != nil {
		return &sandbox.Error{Class: sandbox.Denied, Field: "Origin", Err: err}
	}
	if c := connOf(r.Context()); c != nil && c.open && !namesLoopback(r.Host) {
		return &sandbox.Error{Class: sandbox.Denied, Field: "Host", Reason: "it is not this host's loopback"}
	}
	return nil
}

func namesLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.IsLoopback()
}
