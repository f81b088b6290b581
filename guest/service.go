//go:build linux

package guest

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"aether/internal/host/inroot"
	"aether/sandbox"
)

const (
	headerTimeout  = 10 * time.Second
	idleConnection = 2 * time.Minute
)

// Service serves one sandbox.
type Service struct {
	backend Backend
	log     Logger
	keep    int
	limits  sandbox.Limits

	serving sync.Once
	server  *http.Server // made by wire, for many services are called without a connection

	procs    table
	watchers watchers
	notifier inroot.Notifier
	usage    usage
	gone     chan struct{} // closed by Close

	mu       sync.Mutex // guards what is below
	settings settings
	updated  time.Time // of the newest change that carried a time
	closed   bool
}

// New makes a service. Nothing of the sandbox is touched before the first call.
// Errors: Invalid, for the Options.
func New(backend Backend, opts Options) (*Service, error) {
	s := &Service{backend: backend, gone: make(chan struct{})}
	if err := s.Configure(opts); err != nil {
		return nil, err
	}
	return s, nil
}

// Configure changes the options of a service that has not been called yet: one
// that was made before it was known for whom. Errors: Invalid.
func (s *Service) Configure(opts Options) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	if s.log = opts.Logger; s.log == nil {
		s.log = plainLogger{}
	}
	s.keep, s.limits, s.settings = opts.KeepOutput, opts.Limits, opts.settings()
	if s.keep == 0 {
		s.keep = DefaultKeep
	}
	return nil
}

// wire is the server of those callers who have a connection.
func (s *Service) wire() *http.Server {
	s.serving.Do(func() { s.server = s.newServer() })
	return s.server
}

func (s *Service) newServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: s.Handler(), Protocols: protocols, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleConnection, ErrorLog: log.New(serverLog{s.log}, "", 0)}
}

// Handler serves the sandbox over a server of the caller's own.
func (s *Service) Handler() http.Handler {
	return s.authorize(s.here(noZeroTimeout(http.HandlerFunc(overTheWire))))
}

// Serve serves the connections of a listener until Close or the listener's end.
func (s *Service) Serve(l net.Listener) error {
	if err := s.wire().Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeConn serves one connection and returns at once.
func (s *Service) ServeConn(c net.Conn) error {
	if err := s.wire().Serve(&single{conn: c}); !errors.Is(err, errServed) {
		return errors.Join(err, c.Close())
	}
	return nil
}

// single is a listener that has one connection. A server returns from it as
// soon as that connection has a goroutine, so an idle service has none.
type single struct{ conn net.Conn }

var errServed = errors.New("the only connection is being served")

func (l *single) Accept() (net.Conn, error) {
	if l.conn == nil {
		return nil, errServed
	}
	c := l.conn
	l.conn = nil
	return c, nil
}

func (l *single) Close() error   { return nil }
func (l *single) Addr() net.Addr { return &net.UnixAddr{Name: "guest", Net: "unix"} }

// Close ends every connection, watch and process. It is idempotent.
func (s *Service) Close() error {
	s.leave()
	errs := []error{s.wire().Close(), s.watchers.close()}
	for _, p := range s.procs.close() {
		if err := p.Kill(); err != nil && classOf(err) != sandbox.NotFound {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// errEnded is what callers get of a service that is closed.
var errEnded = &sandbox.Error{Class: sandbox.NotFound, Reason: "the sandbox has ended"}

// leave lets go of the callers that have no connection to be closed.
func (s *Service) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		close(s.gone)
	}
	s.closed = true
}

// openRoot opens the sandbox's root for one call: a program has many services, and few
// that are being called.
func (s *Service) openRoot() (*inroot.Root, error) {
	select {
	case <-s.gone:
		return nil, errEnded
	default:
	}
	dir, err := s.backend.Root()
	if err != nil {
		return nil, err
	}
	return inroot.New(dir), nil
}

func (s *Service) current() settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings
}

// noZeroTimeout takes a timeout of zero for none, as its senders mean it.
func noZeroTimeout(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Connect-Timeout-Ms") == "0" {
			r.Header.Del("Connect-Timeout-Ms")
		}
		next.ServeHTTP(w, r)
	})
}

// errorMapper maps the errors of every call.
type errorMapper struct{}

func (errorMapper) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		return res, rpcError(err)
	}
}

func (errorMapper) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (errorMapper) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return rpcError(next(ctx, conn))
	}
}
