package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"aether/engine"
)

// attached makes a sandbox that lives as long as the request: no caller that is killed
// leaves one behind.
func (s *Server) attached(a *answer, r *request) error {
	made, err := s.create(a, r)
	if err != nil {
		return err
	}
	defer s.bury(r, made.(engine.Sandbox).ID)
	a.Header().Set("Content-Type", "application/x-ndjson")
	a.Header().Set("Cache-Control", "no-store")
	a.WriteHeader(http.StatusCreated)
	control := http.NewResponseController(a)
	if err := control.SetWriteDeadline(time.Now().Add(s.opts.Limits.Stall)); err != nil {
		return err
	}
	if json.NewEncoder(a).Encode(made) != nil || control.Flush() != nil {
		return nil // the caller is gone
	}
	select {
	case <-r.Context().Done():
	case <-s.life.Done():
	}
	return nil
}

// buryTime bounds the end of a sandbox whose caller is gone.
const buryTime = 30 * time.Second

func (s *Server) bury(r *request, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), buryTime)
	defer cancel()
	if err := s.opts.Engine.Destroy(ctx, r.who, id); err != nil {
		s.log.Error("rest: a sandbox whose caller is gone could not be ended", "sandbox", id, "error", err)
	}
}
