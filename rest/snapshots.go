package rest

import (
	"aether/engine"
)

// MarkRequest is what a mark is to be called; the next number, if it says nothing.
type MarkRequest struct {
	Name string `json:"name,omitempty"`
}

// Marks is the list of a sandbox's marks, oldest first.
type Marks struct {
	Marks []engine.Mark `json:"marks"`
}

func (s *Server) snapshot(a *answer, r *request) (any, error) {
	var req engine.SnapshotRequest
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
	return s.opts.Engine.Snapshot(r.Context(), r.who, r.PathValue("id"), req)
}

func (s *Server) listSnapshots(_ *answer, r *request) (any, error) {
	q, err := parseSnapshotQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	page, err := s.opts.Engine.Snapshots(r.Context(), r.who, q)
	if page.Snapshots == nil {
		page.Snapshots = []engine.Snapshot{}
	}
	return page, err
}

func (s *Server) getSnapshot(_ *answer, r *request) (any, error) {
	return s.opts.Engine.GetSnapshot(r.Context(), r.who, r.PathValue("id"))
}

func (s *Server) deleteSnapshot(_ *answer, r *request) (any, error) {
	return nil, s.opts.Engine.DeleteSnapshot(r.Context(), r.who, r.PathValue("id"))
}

func (s *Server) rollback(a *answer, r *request) (any, error) {
	var req engine.RollbackRequest
	if err := s.body(a, r, &req); err != nil {
		return nil, err
	}
	leave, err := s.creations.enter(r.who.Name)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.opts.Engine.Rollback(r.Context(), r.who, r.PathValue("id"), req)
}

func (s *Server) mark(a *answer, r *request) (any, error) {
	var req MarkRequest
	if err := s.body(a, r, &req); err != nil {
		return nil, err
	}
	leave, err := s.creations.enter(r.who.Name)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.opts.Engine.Mark(r.Context(), r.who, r.PathValue("id"), req.Name)
}

func (s *Server) listMarks(_ *answer, r *request) (any, error) {
	marks, err := s.opts.Engine.Marks(r.Context(), r.who, r.PathValue("id"))
	if marks == nil {
		marks = []engine.Mark{}
	}
	return Marks{marks}, err
}

func (s *Server) deleteMark(_ *answer, r *request) (any, error) {
	return nil, s.opts.Engine.DeleteMark(r.Context(), r.who, r.PathValue("id"), r.PathValue("name"))
}
