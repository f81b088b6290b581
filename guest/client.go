package guest

import (
	"context"
	"encoding/base64"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"aether/guest/wire/filesystem/filesystemconnect"
	"aether/guest/wire/process/processconnect"
)

const (
	// clientURL names no host: every connection comes from the dial function.
	clientURL = "http://guest"
	// idleClient is how long a connection is kept for the next call: less than services keep
	// one, which would close it just when a call is sent that nobody may send twice.
	idleClient = time.Minute
)

// ClientOptions are how a client presents itself. The zero value works.
type ClientOptions struct {
	AccessToken string
	// User runs and owns what the client asks for; empty means the service's
	// default.
	User string
}

// Client speaks to a guest service. It may be used by many at once.
type Client struct {
	http *http.Client
	opts ClientOptions
	wire func() any                       // see callsOf; made at the first use, for it takes longer than many calls
	here func() (InProcessService, error) // nil if the service is in another program
}

// calls are those of the wire.
type calls struct {
	process processconnect.ProcessClient
	files   filesystemconnect.FilesystemClient
}

// NewClient makes a client whose connections come from dial.
func NewClient(dial func(context.Context) (net.Conn, error), opts ClientOptions) *Client {
	transport := &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		IdleConnTimeout:        idleClient,
	}
	return NewClientOver(transport, opts)
}

// NewClientOver makes a client whose requests are carried by somebody else, as by a
// daemon in front of the sandbox. Their URLs name no host: the carrier knows where to.
func NewClientOver(carrier http.RoundTripper, opts ClientOptions) *Client {
	c := &Client{http: &http.Client{Transport: carrier, CheckRedirect: stay}, opts: opts}
	c.wire = sync.OnceValue(func() any { return newCalls(c) })
	return c
}

// stay follows no redirection: a service has no reason to send its client anywhere.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// callsOf is the wire of a client. A Client does not name its type, and this is no method: the
// compiler makes the methods of generic types anew, and there are hundreds behind this one, in
// every package that sees them in another's type.
func callsOf(c *Client) calls { return c.wire().(calls) }

func newCalls(c *Client) calls {
	options := []connect.ClientOption{
		connect.WithInterceptors(identify{c.opts}),
		connect.WithAcceptCompression("gzip", nil, nil), // output comes from this host
		connect.WithReadMaxBytes(maxMessage),
		connect.WithCodec(boundedCodec{}),
	}
	http := boundedCalls{c.http}
	return calls{
		processconnect.NewProcessClient(http, clientURL, options...),
		filesystemconnect.NewFilesystemClient(http, clientURL, options...),
	}
}

// Close closes the connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (o ClientOptions) mark(h http.Header) {
	if o.AccessToken != "" {
		h.Set(tokenHeader, o.AccessToken)
	}
	if o.User != "" {
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(o.User+":")))
	}
}

// identify says who calls.
type identify struct{ ClientOptions }

func (i identify) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		i.mark(req.Header())
		return next(ctx, req)
	}
}

func (i identify) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		i.mark(conn.RequestHeader())
		return conn
	}
}

func (i identify) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
