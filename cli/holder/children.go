package holder

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"

	"aether/engine"
	"aether/sandbox"
)

// child finds the child that a request is about.
func (s *Server) child(do func(http.ResponseWriter, *http.Request, *engine.Child)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		child := s.children[r.PathValue("id")]
		s.mu.Unlock()
		if child == nil {
			writeError(w, &sandbox.Error{Class: sandbox.NotFound, Op: "child " + r.PathValue("id"), Reason: "it has ended, or never was"})
			return
		}
		do(w, r, child)
	}
}

func (s *Server) stats(w http.ResponseWriter, r *http.Request, child *engine.Child) {
	stats, err := child.Stats(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, stats)
}

func (s *Server) destroy(w http.ResponseWriter, r *http.Request, child *engine.Child) {
	if err := child.Destroy(r.Context()); err != nil {
		writeError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// fork answers with a child and stays open as long as that lives; it ends with
// the request.
func (s *Server) fork(w http.ResponseWriter, r *http.Request) {
	var req forkRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&req); err != nil {
		writeError(w, &sandbox.Error{Class: sandbox.Invalid, Field: "body", Err: err})
		return
	}
	child, err := s.make(r.Context(), req.Spec)
	if err != nil {
		writeError(w, err)
		return
	}
	defer s.bury(child)
	writeJSON(w, born{ID: child.ID(), Resident: child.Resident(), Handle: child.Handle(), Took: child.Took()})
	if http.NewResponseController(w).Flush() != nil {
		return
	}
	select {
	case <-child.Done():
	case <-r.Context().Done():
	}
}

// make claims a child where one is kept that will do, and forks one otherwise.
func (s *Server) make(ctx context.Context, spec sandbox.Spec) (*engine.Child, error) {
	var child *engine.Child
	var err error
	if s.pool != nil && plain(spec) {
		child, err = s.pool.Claim(ctx, s.tenant)
	} else {
		var children []*engine.Child
		if children, err = s.template.Fork(ctx, spec); err == nil {
			child = children[0]
		}
	}
	if err != nil {
		return nil, err
	}
	child.Detach() // the client connects by itself
	s.mu.Lock()
	defer s.mu.Unlock()
	s.children[child.ID()] = child
	return child, nil
}

// plain says that a Spec asks for nothing that the template does not give.
func plain(spec sandbox.Spec) bool {
	return spec.ID == "" && spec.Limits == (sandbox.Limits{}) && spec.Network.Mode == sandbox.NoNetwork && spec.Timeouts == (sandbox.Timeouts{})
}

// bury ends a child whose request has ended. What cannot be removed is said in
// the holder's log.
func (s *Server) bury(child *engine.Child) {
	s.mu.Lock()
	delete(s.children, child.ID())
	s.mu.Unlock()
	if err := child.Destroy(context.Background()); err != nil {
		s.log.Error("a child could not be removed", "sandbox", child.ID(), "err", err)
	}
}

// dial hands a connection to the child's guest service through.
func (s *Server) dial(w http.ResponseWriter, r *http.Request, child *engine.Child) {
	inner, err := child.Instance().Dial(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	defer inner.Close()
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", upgradeName)
	w.WriteHeader(http.StatusSwitchingProtocols)
	outer, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.log.Warn("a connection could not be handed through", "sandbox", child.ID(), "err", err)
		return
	}
	defer outer.Close()
	splice(buffered.Reader, outer, inner)
}

const upgradeName = "aether-guest"

// splice carries bytes both ways until one side ends.
func splice(from io.Reader, outer, inner net.Conn) {
	var both sync.WaitGroup
	stop := func() {
		outer.Close()
		inner.Close()
	}
	both.Go(func() {
		defer stop()
		// However it ends, it ends; the client sees it.
		_, _ = io.Copy(inner, from)
	})
	both.Go(func() {
		defer stop()
		_, _ = io.Copy(outer, inner)
	})
	both.Wait()
}
