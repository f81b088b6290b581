package rest

import (
	"strings"
	"unicode/utf8"

	"aether/engine"
	"aether/sandbox"
)

const (
	idempotencyHeader = "Idempotency-Key"
	maxIdempotency    = 255
)

func (s *Server) create(a *answer, r *request) (any, error) {
	var req engine.CreateRequest
	if err := s.body(a, r, &req); err != nil {
		return nil, err
	}
	var err error
	if req.Key, err = idempotencyKey(r); err != nil {
		return nil, err
	}
	leave, err := s.creations.enter(r.who.Name)
	if err != nil {
		return nil, err
	}
	defer leave()
	made, err := s.opts.Engine.Create(r.Context(), r.who, req)
	r.sandbox = made.ID
	return made, err
}

func idempotencyKey(r *request) (string, error) {
	key := r.Header.Get(idempotencyHeader)
	odd := func(c rune) bool { return c <= ' ' || c > '~' }
	if len(key) > maxIdempotency || strings.ContainsFunc(key, odd) {
		return "", sandbox.Invalidf(idempotencyHeader, "it must be at most %d letters, digits and signs of ASCII", maxIdempotency)
	}
	return key, nil
}

func (s *Server) list(_ *answer, r *request) (any, error) {
	q, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	page, err := s.opts.Engine.List(r.Context(), r.who, q)
	if page.Sandboxes == nil {
		page.Sandboxes = []engine.Sandbox{}
	}
	return page, err
}

func (s *Server) get(_ *answer, r *request) (any, error) {
	return s.opts.Engine.Get(r.Context(), r.who, r.PathValue("id"))
}

func (s *Server) destroy(_ *answer, r *request) (any, error) {
	return nil, s.opts.Engine.Destroy(r.Context(), r.who, r.PathValue("id"))
}

// change changes what is given, metadata before the timeout: whoever sets both and is
// refused the second finds in the answer's field which one it was.
func (s *Server) change(a *answer, r *request) (any, error) {
	var req Change
	if err := s.body(a, r, &req); err != nil {
		return nil, err
	}
	if req.Timeout == nil && req.Metadata == nil {
		return nil, sandbox.Invalidf("body", "it changes neither timeout_ns nor metadata")
	}
	if req.Timeout == nil && req.Then != "" {
		return nil, sandbox.Invalidf("then", "it comes with timeout_ns")
	}
	return s.changeBoth(r, req)
}

func (s *Server) changeBoth(r *request, req Change) (now engine.Sandbox, err error) {
	id := r.PathValue("id")
	if req.Metadata != nil {
		if now, err = s.opts.Engine.SetMetadata(r.Context(), r.who, id, req.Metadata); err != nil {
			return now, err
		}
	}
	if req.Timeout != nil {
		return s.opts.Engine.SetTimeout(r.Context(), r.who, id, *req.Timeout, req.Then)
	}
	return now, nil
}

func (s *Server) pause(a *answer, r *request) (any, error) {
	var req PauseRequest
	if err := s.body(a, r, &req); err != nil {
		return nil, err
	}
	return s.opts.Engine.Pause(r.Context(), r.who, r.PathValue("id"), req.Fidelity)
}

func (s *Server) resume(a *answer, r *request) (any, error) {
	var req ResumeRequest
	if err := s.body(a, r, &req); err != nil {
		return nil, err
	}
	return s.opts.Engine.Resume(r.Context(), r.who, r.PathValue("id"), req.Fidelity)
}

func (s *Server) fork(a *answer, r *request) (any, error) {
	var req engine.ForkRequest
	if err := s.body(a, r, &req); err != nil {
		return nil, err
	}
	var err error
	if req.Key, err = idempotencyKey(r); err != nil {
		return nil, err
	}
	leave, err := s.creations.enter(r.who.Name)
	if err != nil {
		return nil, err
	}
	defer leave()
	children, err := s.opts.Engine.Fork(r.Context(), r.who, r.PathValue("id"), req)
	return Forked{children}, err
}

func (s *Server) stats(_ *answer, r *request) (any, error) {
	return s.opts.Engine.Stats(r.Context(), r.who, r.PathValue("id"))
}

func (s *Server) console(_ *answer, r *request) (any, error) {
	end, cut, err := s.opts.Engine.Console(r.Context(), r.who, r.PathValue("id"))
	for range utf8.UTFMax - 1 { // it may begin in the middle of a letter
		if cut && len(end) > 0 && !utf8.RuneStart(end[0]) {
			end = end[1:]
		}
	}
	return newOutput(end, cut), err
}
