package rest

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
)

// A daemon that refuses a request may close the connection before it has read the whole body.
// What is still written then fails, and net/http takes either that or the refusal for the
// outcome, whichever it notices first. So a body that nobody reads any more is taken for
// written: what the daemon has said is still to be read, or else nothing is, and that is the
// error. The beginning of a request is another matter: on a connection that was closed while
// it was idle, net/http makes another one.

// refusable is a transport with such connections.
type refusable struct{ *http.Transport }

// newRefusable has a transport make them.
func newRefusable(t *http.Transport, dial func(ctx context.Context, network, address string) (net.Conn, error)) refusable {
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &refusableConn{Conn: conn}, nil
	}
	return refusable{t}
}

// RoundTrip implements http.RoundTripper.
func (t refusable) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		conn := got.Conn
		if over, ok := conn.(*tls.Conn); ok {
			conn = over.NetConn()
		}
		if c, ok := conn.(*refusableConn); ok {
			c.begun.Store(false)
		}
	}}
	return t.Transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
}

type refusableConn struct {
	net.Conn
	begun atomic.Bool // something of the request was written
}

// Write implements net.Conn.
func (c *refusableConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil && c.begun.Load() && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
		return len(p), nil
	}
	if n > 0 {
		c.begun.Store(true)
	}
	return n, err
}
