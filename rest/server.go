package rest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"

	"aether/sandbox"
)

// wrongKeyBurst is how many wrong keys of one address are answered at once.
const wrongKeyBurst = 100

// Server is the door. It may serve many listeners.
type Server struct {
	opts    Options
	log     *slog.Logger
	mux     *http.ServeMux
	http    *http.Server
	guests  guests
	metrics metrics
	origin  *http.CrossOriginProtection

	requests  *rates // by the name of the caller
	strangers *rates // by address
	creations *crowd
	streams   *crowd

	open     atomic.Int64 // connections
	draining atomic.Bool
	life     context.Context // of streams of events: ends when draining begins
	drain    context.CancelFunc
}

// New makes a server. Errors: Invalid, for the Options.
func New(opts Options) (*Server, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts.Limits = opts.Limits.withDefaults()
	l := opts.Limits
	s := &Server{
		opts: opts, log: cmp.Or(opts.Logger, slog.Default()), origin: http.NewCrossOriginProtection(),
		requests: newRates(l.Rate, l.Burst), strangers: newRates(wrongKeys, wrongKeyBurst),
		creations: newCrowd("creations", l.Creations, l.Creations), streams: newCrowd("streams", l.Streams, l.CallerStreams),
	}
	s.life, s.drain = context.WithCancel(context.Background())
	s.guests = newGuests(opts.Engine)
	s.mux = s.newMux()
	s.http = s.newHTTP()
	return s, nil
}

func (s *Server) newHTTP() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	l := s.opts.Limits
	return &http.Server{Handler: s, Protocols: protocols, MaxHeaderBytes: maxHeader, ConnContext: remember, ConnState: s.count,
		ReadHeaderTimeout: l.Receive, IdleTimeout: l.Idle,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: 256, SendPingTimeout: l.Stall, PingTimeout: l.Stall, WriteByteTimeout: l.Stall},
		ErrorLog: log.New(complaints{s.log}, "", 0)}
}

// count counts the connections that are open.
func (s *Server) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
}

// complaints are those of the HTTP server. Clients can have it write any number of them,
// but for those about its listeners.
type complaints struct{ log *slog.Logger }

func (c complaints) Write(line []byte) (int, error) {
	level := slog.LevelDebug
	if bytes.Contains(line, []byte("Accept error")) {
		level = slog.LevelWarn
	}
	c.log.Log(context.Background(), level, "rest: connection", "error", string(line))
	return len(line), nil
}

// ServeHTTP answers one request, for those who have a server of their own.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, d := range s.opts.Dialects {
		if op := d.Direct(r); op != nil {
			s.serve(op.route(), w, r)
			return
		}
	}
	s.mux.ServeHTTP(w, r)
}

// Serve answers the requests that come to a listener, until Close or the listener's end.
func (s *Server) Serve(l *Listener) error {
	if err := s.http.Serve(newAcceptor(l, s.opts.Limits.Connections)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Drain says that the server will end: it is no longer ready, and streams of events end,
// whose readers go on elsewhere by the number of the last one.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.drain()
}

// DrainIdle is Drain if nobody is connected, and says whether it was. Who connects
// meanwhile is either counted or told by /ready that the server will end.
func (s *Server) DrainIdle() bool {
	s.draining.Store(true)
	if s.open.Load() > 0 {
		s.draining.Store(false)
		return false
	}
	s.drain()
	return true
}

// Idle says that nobody is connected.
func (s *Server) Idle() bool { return s.open.Load() == 0 }

// Close drains, takes no new connections and lets the requests that run come to their
// end. Those that have not when the context ends are cut. Errors: Timeout if there were.
func (s *Server) Close(ctx context.Context) error {
	s.Drain()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, ctx.Err()) && err != nil {
		err = errors.Join(&sandbox.Error{Class: sandbox.Timeout, Op: "rest: close", Reason: "requests were cut that still ran"}, s.http.Close())
	}
	s.guests.close()
	return err
}
