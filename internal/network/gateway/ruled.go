package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"aether/network/policy"
	"aether/sandbox"
)

// verdictKey is where a request's context has what was decided about it.
type verdictKey struct{}

// overriding are headers that some servers take for the method or the path of a request.
var overriding = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Url", "X-Rewrite-Url"}

var errNotHTTP = errors.New("nothing but HTTP is spoken here")

// serveRuled passes on requests to a host that rules are about, and nothing else: TLS ends
// here. The connection that was made is for the first of them.
func (c *carried) serveRuled() {
	g := c.gateway
	e := &exchange{gateway: g, target: c.target, upstream: &upstream{gateway: g, target: c.target, first: c.outer}}
	inner, seen := c.paced(), new(bytes.Buffer)
	encrypted, err := c.openRuled(seen)
	if err != nil {
		c.cut() // which was told
		return
	}
	if encrypted {
		e.certificate = e.certificateFor
	}
	e.serve(&replay{Conn: inner, seen: seen, through: true})
}

// openRuled looks at what the sandbox says first.
func (c *carried) openRuled(seen *bytes.Buffer) (encrypted bool, err error) {
	t := c.target
	d := sandbox.NetworkDecision{Verdict: sandbox.VerdictDenied, Kind: "tls", Name: t.name, Address: t.address, Port: t.port}
	if err := c.inner.SetReadDeadline(time.Now().Add(helloTime)); err != nil {
		return false, err
	}
	var one [1]byte
	if n, err := c.inner.Read(one[:]); n == 0 {
		return false, errors.Join(errNotHTTP, err)
	}
	seen.Write(one[:])
	if one[0] != recordHandshake {
		if k, _ := sniff(one[:], false); k == opaque {
			d.Kind, d.Reason = "tcp", "rules are about requests to this host: nothing else is passed on to it"
			c.gateway.tell(d)
			return false, errNotHTTP
		}
		return false, c.inner.SetReadDeadline(time.Time{})
	}
	hello, err := readHello(c.inner, seen)
	switch {
	case err != nil:
		d.Reason = "the hello cannot be read"
	case !isFor(hello.ServerName, t.name):
		d.Reason, err = "the hello is not for "+t.name, errForged
	default:
		return true, nil
	}
	c.gateway.tell(d)
	return true, err
}

// isFor says whether a name that a sandbox sent is another way to write a name.
func isFor(text, name string) bool {
	sent, err := sandbox.ParseHostName(text)
	return err == nil && sent == name
}

// certificateFor is the certificate of the name that was asked for, and of no other.
func (e *exchange) certificateFor(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	a := e.gateway.authority.Load()
	if a == nil || !isFor(hello.ServerName, e.target.name) {
		return nil, errForged
	}
	return a.leaf(e.target.name)
}

// passRuled asks the rules about a request, and tells what they say. What they are asked
// about is what is sent on: a path that would be written differently is not asked about.
func (e *exchange) passRuled(d sandbox.NetworkDecision, w http.ResponseWriter, r *http.Request) {
	t := e.target
	path := r.URL.EscapedPath()
	if sent, _, _ := strings.Cut(r.RequestURI, "?"); sent != path {
		path = ""
	}
	v := e.gateway.policy.Load().Request(t.name, t.port, r.Method, path)
	switch {
	case e.certificate != nil && (r.TLS == nil || !isFor(r.TLS.ServerName, t.name)):
		v.Allowed, v.Reason = false, "the connection is not for "+t.name
	case v.Allowed && v.Secret && e.certificate == nil:
		v.Allowed, v.Reason = false, "a secret is sent over TLS alone: use https"
	}
	d.Rule, d.Reason = v.Rule, v.Reason
	if !v.Allowed {
		e.gateway.tell(d)
		refuse(w, http.StatusForbidden, d.Reason)
		return
	}
	d.Verdict = sandbox.VerdictAllowed
	e.gateway.tell(d)
	e.forward(w, r.WithContext(context.WithValue(r.Context(), verdictKey{}, v)))
}

// rewriteRuled sets the headers of the rules, after those that the connection's own headers
// take away.
func (e *exchange) rewriteRuled(out *http.Request, v policy.RequestVerdict) {
	for _, name := range overriding {
		out.Header.Del(name)
	}
	for name, value := range v.Headers {
		name = textproto.CanonicalMIMEHeaderKey(name)
		for other := range out.Header {
			if strings.EqualFold(strings.ReplaceAll(other, "_", "-"), name) {
				delete(out.Header, other) // some servers read it as the same
			}
		}
		out.Header[name] = []string{value}
	}
}
