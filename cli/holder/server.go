package holder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"

	"aether/engine"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

// Server lets other programs of this user fork a template.
type Server struct {
	template *engine.Template
	pool     *engine.Pool // nil if nothing is forked ahead
	tenant   string
	engine   *engine.Engine
	log      *slog.Logger
	end      context.CancelFunc

	mu       sync.Mutex
	children map[string]*engine.Child
}

// Options are what a Server serves.
type Options struct {
	Engine   *engine.Engine
	Template *engine.Template
	// Ahead is how many children are kept ready; zero keeps none.
	Ahead int
	// Ready, if set, is called once, when others can fork the template.
	Ready func(Info)
}

// Serve serves the template on the socket of its place until it is asked to end,
// the context ends or the template does; the last is an error.
func (p *Place) Serve(ctx context.Context, opts Options) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	s, err := p.newServer(opts, end)
	if err != nil {
		return err
	}
	info, err := s.describe(ctx)
	if err != nil {
		return err
	}
	listener, err := p.listen()
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.routes(), BaseContext: func(net.Listener) context.Context { return ctx }, MaxHeaderBytes: maxHeader, ReadHeaderTimeout: answerTime,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn)}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	if opts.Ready != nil {
		opts.Ready(info)
	}
	select {
	case err = <-failed:
	case <-ctx.Done():
	case <-opts.Template.Done():
		err = &sandbox.Error{Class: sandbox.NotFound, Op: "template " + p.name, Reason: "its sandbox has ended"}
	}
	return errors.Join(err, server.Close())
}

func (p *Place) newServer(opts Options, end context.CancelFunc) (s *Server, err error) {
	s = &Server{template: opts.Template, engine: opts.Engine, log: p.Logger(), tenant: fmt.Sprint("uid ", os.Geteuid()), end: end,
		children: map[string]*engine.Child{}}
	if opts.Ahead > 0 {
		s.pool, err = opts.Engine.Pool(s.tenant, opts.Template.Recipe().Name, engine.PoolOptions{Size: opts.Ahead})
	}
	return s, err
}

// maxPath is what the kernel takes for the path of a socket.
const maxPath = 107

func (p *Place) listen() (net.Listener, error) {
	path := p.dir.socket(p.name)
	if len(path) > maxPath {
		return nil, &sandbox.Error{Class: sandbox.Invalid, Field: "AETHER_STATE_DIR",
			Reason: fmt.Sprintf("the socket %s would have a path of over %d bytes", path, maxPath), Remedy: "use a shorter one"}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return storedir.OwnListener{UnixListener: l}, nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /template", s.info)
	mux.HandleFunc("DELETE /template", s.stop)
	mux.HandleFunc("POST /children", s.fork)
	mux.HandleFunc("GET /children/{id}/stats", s.child(s.stats))
	mux.HandleFunc("POST /children/{id}/dial", s.child(s.dial))
	mux.HandleFunc("DELETE /children/{id}", s.child(s.destroy))
	return mux
}

func (s *Server) info(w http.ResponseWriter, r *http.Request) {
	info, err := s.describe(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, info)
}

func (s *Server) describe(ctx context.Context) (Info, error) {
	t := s.template
	stats, err := t.Stats(ctx)
	if err != nil {
		return Info{}, err
	}
	info := Info{Name: t.Recipe().Name, ID: t.ID(), Holder: os.Getpid(), Driver: t.Driver().Name, Boundary: t.Driver().Boundary,
		Fidelity: t.Fidelity(), Frozen: t.Frozen(), Prepared: t.Prepared(), Took: t.Took(), Recipe: t.Recipe(), Stats: stats, Tree: s.engine.Tree()}
	if s.pool != nil {
		pool := s.pool.Stats()
		info.Pool = &pool
	}
	return info, nil
}

// stop ends the holder once its client knows.
func (s *Server) stop(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusAccepted)
	_ = http.NewResponseController(w).Flush() // it ends either way
	s.end()
}
