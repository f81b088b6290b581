package gateway

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"aether/internal/unread"
	"aether/network/policy"
	"aether/sandbox"
)

const (
	headTime    = 30 * time.Second
	idleTime    = 2 * time.Minute
	maxHead     = 64 << 10
	maxIdleConn = 2
	// maxStreams is how many requests at once come by one connection, streamBuffers what is
	// kept of all their bodies until it is sent on, and streamBuffer what of one.
	maxStreams    = 100
	streamBuffers = 512 << 10
	streamBuffer  = 256 << 10
)

// exchange is the requests of one connection of the sandbox's.
type exchange struct {
	gateway *Gateway
	target  target
	// certificate is by which TLS ends here, or nil where there is none.
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	upstream    *upstream
	proxy       http.Handler
}

// serve reads the requests one by one, and passes on those that are for the name which was
// asked for: a connection to an allowed host would otherwise carry requests for every other
// that the same server knows.
func (e *exchange) serve(inner net.Conn) {
	transport := e.transport()
	defer transport.CloseIdleConnections()
	e.proxy = &httputil.ReverseProxy{
		Rewrite: e.rewrite, Transport: transport, FlushInterval: -1, ErrorLog: silent,
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("Alt-Svc") // there is no other way to the host
			if body, ok := r.Request.Context().Value(bodyKey{}).(*unread.Body); ok {
				body.CloseAfter(r.Header)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { refuse(w, http.StatusBadGateway, err.Error()) },
	}
	one := newOneConn(inner)
	server := &http.Server{
		Handler:           one.count(http.HandlerFunc(e.pass)),
		ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHead, ErrorLog: silent,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: streamBuffers, MaxReceiveBufferPerStream: streamBuffer},
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed || s == http.StateHijacked {
				one.done()
			}
		},
	}
	if e.certificate != nil { // both end with the one connection
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: e.certificate, SessionTicketsDisabled: true}
		_ = server.ServeTLS(one, "", "")
	} else {
		_ = server.Serve(one)
	}
	one.wait()
}

// transport makes the connections to the host: encrypted ones if the sandbox's is.
func (e *exchange) transport() *http.Transport {
	return &http.Transport{
		DialContext: e.upstream.dial, ForceAttemptHTTP2: true, TLSHandshakeTimeout: connectTime,
		TLSClientConfig:    &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: e.gateway.opts.Way.Roots, ServerName: e.target.name},
		HTTP2:              &http.HTTP2Config{MaxReceiveBufferPerConnection: streamBuffers, MaxReceiveBufferPerStream: streamBuffer},
		DisableCompression: true, MaxIdleConnsPerHost: maxIdleConn, IdleConnTimeout: idleTime, MaxResponseHeaderBytes: maxHead,
	}
}

// rewrite makes the request that is sent on.
func (e *exchange) rewrite(r *httputil.ProxyRequest) {
	in, scheme := r.In.URL, "http"
	if e.certificate != nil {
		scheme = "https"
	}
	r.Out.URL = &url.URL{Scheme: scheme, Host: net.JoinHostPort(e.target.host(), strconv.Itoa(int(e.target.port))),
		Path: in.Path, RawPath: in.RawPath, RawQuery: in.RawQuery, ForceQuery: in.ForceQuery}
	r.Out.Host = r.In.Host
	if r.In.Header["User-Agent"] == nil {
		r.Out.Header["User-Agent"] = nil
	}
	if v, ok := r.In.Context().Value(verdictKey{}).(policy.RequestVerdict); ok {
		e.rewriteRuled(r.Out, v)
	}
}

var silent = log.New(io.Discard, "", 0)

// pass checks one request.
func (e *exchange) pass(w http.ResponseWriter, r *http.Request) {
	g, t := e.gateway, e.target
	d := sandbox.NetworkDecision{Verdict: sandbox.VerdictDenied, Kind: "http", Name: t.name, Address: t.address, Port: t.port}
	p := g.policy.Load()
	switch host := hostOf(r.Host, t.port); {
	case r.Method == http.MethodConnect:
		d.Reason = "a request to relay a connection"
	case host == "":
		d.Reason = "the request names no host that can be read"
	case t.name != "" && host != t.name:
		d.Reason = "the request is for " + host
	case t.name == "" && p.Denies(host, t.port):
		d.Reason = "the request is for " + host
	case t.name == "" && p.Ruled(host, t.port):
		d.Reason = "the request is for " + host + ", which rules are about: it is reached by its name alone"
	case p.Ruled(t.name, t.port) || e.certificate != nil:
		e.passRuled(d, w, r)
		return
	default:
		e.forward(w, r)
		return
	}
	g.tell(d)
	refuse(w, http.StatusForbidden, d.Reason)
}

// forward passes a request on. A connection becomes no other than a WebSocket: requests of
// another protocol would not be looked at.
func (e *exchange) forward(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		r.Header.Del("Upgrade")
	}
	if r.ProtoMajor == 1 {
		_ = http.NewResponseController(w).EnableFullDuplex() // which servers of this package can
	}
	r, body := unread.Of(r)
	r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, body))
	e.proxy.ServeHTTP(w, r)
}

// bodyKey is where the context of a request has its body.
type bodyKey struct{}

// refuse tells the sandbox why, where somebody who looks for the mistake finds it.
func refuse(w http.ResponseWriter, status int, reason string) {
	w.Header().Set("Connection", "close")
	http.Error(w, "aether: "+reason, status)
}

// hostOf is the name or the address that a request is for, or "" if it cannot be read or
// names another port.
func hostOf(text string, port uint16) string {
	host, named, err := net.SplitHostPort(text)
	if err != nil {
		host, named = text, ""
	}
	if named != "" && named != strconv.Itoa(int(port)) {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip.String()
	}
	name, err := sandbox.ParseHostName(host)
	if err != nil {
		return ""
	}
	return name
}

func (t target) host() string {
	if t.name != "" {
		return t.name
	}
	return t.address.String()
}
