package e2b

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/rest"
	"aether/sandbox"
)

const (
	// idlePort is how long a connection to a port is kept for the next request: less than the
	// servers of this world keep one. A POST that is sent when its server just gives up the
	// connection fails, for nobody may send it twice.
	idlePort     = time.Second
	maxIdlePorts = 256
)

// ports carries requests to what listens inside of sandboxes.
type ports struct {
	engine Engine
	plain  *http.Transport
	h2     *http.Transport // for gRPC, which is nothing without HTTP/2
}

// destination is for whom a connection is made, and where to.
type destination struct {
	place
	who engine.Caller
}

type destinationKey struct{}

func newPorts(e Engine) *ports {
	p := &ports{engine: e}
	p.plain, p.h2 = p.transport(false), p.transport(true)
	return p
}

func (p *ports) transport(h2 bool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2)
	protocols.SetUnencryptedHTTP2(h2)
	return &http.Transport{DialContext: p.dial, Protocols: protocols, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns: maxIdlePorts, MaxIdleConnsPerHost: 4, IdleConnTimeout: idlePort}
}

func (p *ports) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	to, ok := ctx.Value(destinationKey{}).(destination)
	if !ok {
		return nil, &sandbox.Error{Op: "e2b: dial", Reason: "nobody asked"}
	}
	client, release, err := p.engine.Guest(ctx, to.who, to.id)
	if err != nil {
		return nil, err
	}
	conn, err := client.DialPort(ctx, to.port)
	if err != nil {
		release()
		return nil, err
	}
	return &portConn{PortConn: conn, at: to.place, release: sync.OnceFunc(release)}, nil
}

// portConn is a connection to a port, as one of a network.
type portConn struct {
	guest.PortConn
	at      place
	release func()
}

// Close implements net.Conn.
func (c *portConn) Close() error {
	defer c.release()
	return c.PortConn.Close()
}

func (c *portConn) LocalAddr() net.Addr              { return portAddr("door") }
func (c *portConn) RemoteAddr() net.Addr             { return portAddr(c.at.String()) }
func (c *portConn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c *portConn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c *portConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// portAddr names an end of a portConn.
type portAddr string

func (portAddr) Network() string  { return "sandbox" }
func (a portAddr) String() string { return string(a) }

func (p place) String() string { return p.id + ":" + strconv.Itoa(p.port) }

// portOperation is a request to a port of a sandbox.
func (d *Dialect) portOperation(at place) *rest.Operation {
	var s engine.Sandbox
	op := &rest.Operation{Name: "e2b.port", Lasts: true}
	op.Who = func(r *http.Request) (_ engine.Caller, err error) {
		if at.port == 0 {
			return engine.Caller{}, sandbox.Invalidf("port", "the request names none")
		}
		s, err = d.permitPort(r.Context(), r, at.id)
		return holder(s), err
	}
	op.Do = func(v *rest.Visit) error {
		v.About(at.id)
		if isCode(s, at) {
			return d.code(v, s)
		}
		return d.ports.carry(v, s, at)
	}
	op.Refuse = func(w http.ResponseWriter, r *http.Request, status int, why rest.Failure) {
		refuseDirect(w, r, at, status, why)
	}
	return op
}

// carry carries a request to a port and the answer back, both as they come; after an
// upgrade, as of WebSocket, whatever both sides say.
func (p *ports) carry(v *rest.Visit, s engine.Sandbox, at place) (failed error) {
	if v.ProtoMajor == 1 { // or the server closes the body, of which the port may want the rest, when the answer begins
		if err := http.NewResponseController(v.Writer).EnableFullDuplex(); err != nil {
			return err
		}
	}
	to := destination{at, v.Who}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			// By its host a connection is kept for the next request: not for one to another
			// instance of the sandbox, which was paused or rolled back since.
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", strconv.Itoa(s.Instance)+"."+at.String(), hostFor(r.In, s, at)
			r.SetXForwarded()
			withoutProofs(r.Out.Header)
		},
		Transport:     p.plain,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // whoever breaks off is told by the broken answer
		ErrorHandler:  func(_ http.ResponseWriter, _ *http.Request, err error) { failed = portError(err) },
	}
	if v.ProtoMajor >= 2 && strings.HasPrefix(v.Request.Header.Get("Content-Type"), "application/grpc") {
		proxy.Transport = p.h2
	}
	proxy.ServeHTTP(&patient{v.Writer, http.NewResponseController(v.Writer), v.Patience()},
		v.Request.WithContext(context.WithValue(v.Context(), destinationKey{}, to)))
	return failed
}

// portError tells what the engine and the guest service refuse from what broke on the way.
func portError(err error) error {
	if sandbox.ClassOf(err) != sandbox.Internal {
		return err
	}
	return rest.Refusal(http.StatusBadGateway, &sandbox.Error{Class: sandbox.Unavailable, Reason: "the port does not answer", Retry: true, Err: err})
}

// hostFor is the host that a port sees: the one that was asked for, unless the sandbox's
// maker wanted another.
func hostFor(r *http.Request, s engine.Sandbox, at place) string {
	if mask := s.Spec.Metadata[markHost]; mask != "" {
		return strings.ReplaceAll(mask, "${PORT}", strconv.Itoa(at.port))
	}
	return r.Host
}

// withoutProofs leaves out what proves something to the door: whoever has the sandbox could
// use it.
func withoutProofs(h http.Header) {
	for _, name := range []string{"X-API-Key", accessHeader, trafficHeader, idHeader, portHeader} {
		h.Del(name)
	}
	if strings.HasPrefix(h.Get("Authorization"), "Bearer e2b_") {
		h.Del("Authorization")
	}
}

// patient is a writer whose reader has so long to take each part.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
	each    time.Duration
}

// Write implements http.ResponseWriter.
func (p *patient) Write(b []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(p.each)); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }
