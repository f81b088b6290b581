package rest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"aether/engine"
	"aether/sandbox"
)

// maxRecipe bounds the body that declares a template, which may have code in it.
const maxRecipe = 8 << 20

// TemplateProgress is a line of the answer to the preparation of a template. The last one
// has the template, or why there is none.
type TemplateProgress struct {
	// Step is what is being done, and Image how far its image is.
	Step     string               `json:"step,omitempty"`
	Image    *ImageProgress       `json:"image,omitempty"`
	Template *engine.TemplateInfo `json:"template,omitempty"`
	Error    *Failure             `json:"error,omitempty"`
}

// ImageProgress is how much of an image is there: layers that are stored, and bytes of
// those that were not.
type ImageProgress struct {
	Ready  int   `json:"ready"`
	Layers int   `json:"layers"`
	Done   int64 `json:"done"`
	Total  int64 `json:"total"`
}

// TemplateTree is the answer of a template's tree, oldest first.
type TemplateTree struct {
	Nodes []engine.Node `json:"nodes"`
}

// prepareTemplate answers with lines while the template is prepared. What is refused
// before that begins is refused as anywhere else. The preparation ends with the request.
func (s *Server) prepareTemplate(a *answer, r *request) error {
	var req engine.TemplateRequest
	if err := s.bodyOf(a, r, &req, max(maxRecipe, s.opts.Limits.BodyBytes)); err != nil {
		return err
	}
	r.sandbox = req.Recipe.Name
	var err error
	if req.Key, err = idempotencyKey(r); err != nil {
		return err
	}
	leave, err := s.creations.enter(r.who.Name)
	if err != nil {
		return err
	}
	defer leave()
	lines := &progressLines{to: a, control: http.NewResponseController(a), stall: s.opts.Limits.Stall}
	ctx := r.Context()
	if s.opts.Images != nil {
		ctx = s.opts.Images(ctx, func(p ImageProgress) { lines.write(TemplateProgress{Image: &p}) })
	}
	info, err := s.opts.Engine.PrepareTemplate(ctx, r.who, req, func(step string) {
		if !strings.HasPrefix(step, engine.StepOutput) { // which may be anything
			lines.write(TemplateProgress{Step: step})
		}
	})
	if lines.end(info, err, r.who.Operator) {
		r.failed = err
		return nil
	}
	return err
}

// progressLines is an answer of lines that begins with the first of them.
type progressLines struct {
	to      *answer
	control *http.ResponseController
	stall   time.Duration

	mu    sync.Mutex
	begun bool
	ended bool
}

// write sends a line, unless the answer has ended. That the reader is gone is told by the
// context of its request.
func (l *progressLines) write(p TemplateProgress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	if !l.begun {
		l.to.Header().Set("Content-Type", "application/x-ndjson")
		l.to.Header().Set("Cache-Control", "no-store")
		l.begun = true
	}
	if l.control.SetWriteDeadline(time.Now().Add(l.stall)) != nil {
		return
	}
	if json.NewEncoder(l.to).Encode(p) == nil {
		_ = l.control.Flush()
	}
}

// end sends the last line. A failure before the first is no line, and end says so.
func (l *progressLines) end(info engine.TemplateInfo, err error, operator bool) bool {
	last := TemplateProgress{Template: &info}
	if err != nil {
		f := failureOf(err, operator)
		last = TemplateProgress{Error: &f}
	}
	l.mu.Lock()
	silent := err != nil && !l.begun
	l.ended = silent
	l.mu.Unlock()
	l.write(last)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	return !silent
}

func (s *Server) listTemplates(_ *answer, r *request) (any, error) {
	q, err := parseTemplateQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	return s.opts.Engine.ListTemplates(r.Context(), r.who, q)
}

// parseTemplateQuery reads the filters of a list. Errors: Invalid, with the parameter.
func parseTemplateQuery(raw string) (q engine.TemplateQuery, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, sandbox.Invalidf("query", "%.200s", err)
	}
	for name, list := range values {
		single := map[string]*string{"tenant": &q.Tenant, "name": &q.Name, "after": &q.After}[name]
		switch value := list[0]; {
		case len(list) > 1:
			return q, once(name, false)
		case len(value) > maxFilter:
			return q, sandbox.Invalidf(name, "it is over %d bytes", maxFilter)
		case single != nil:
			*single = value
		case name != "limit":
			return q, sandbox.Invalidf(name, "there is no such filter")
		default:
			if q.Limit, err = strconv.Atoi(value); err != nil || q.Limit < 1 || q.Limit > maxPage {
				return q, sandbox.Invalidf(name, "%.40q is no number from 1 to %d", value, maxPage)
			}
		}
	}
	return q, nil
}

// templateOf is the template that a path names, for the audit trail too.
func templateOf(r *request) string {
	r.sandbox = r.PathValue("template")
	return r.sandbox
}

func (s *Server) getTemplate(_ *answer, r *request) (any, error) {
	return s.opts.Engine.GetTemplate(r.Context(), r.who, templateOf(r))
}

func (s *Server) removeTemplate(_ *answer, r *request) (any, error) {
	return nil, s.opts.Engine.RemoveTemplate(r.Context(), r.who, templateOf(r))
}

func (s *Server) changeTemplate(a *answer, r *request) (any, error) {
	template := templateOf(r)
	var req engine.TemplateChange
	if err := s.body(a, r, &req); err != nil {
		return nil, err
	}
	if req.Tags == nil && req.Ahead == nil {
		return nil, sandbox.Invalidf("body", "it changes neither tags nor ahead")
	}
	return s.opts.Engine.ChangeTemplate(r.Context(), r.who, template, req)
}

func (s *Server) templateTree(_ *answer, r *request) (any, error) {
	nodes, err := s.opts.Engine.TemplateTree(r.Context(), r.who, templateOf(r))
	if nodes == nil {
		nodes = []engine.Node{}
	}
	return TemplateTree{nodes}, err
}

func (s *Server) promote(a *answer, r *request) (any, error) {
	var req engine.PromoteRequest
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
	return s.opts.Engine.Promote(r.Context(), r.who, r.PathValue("id"), req)
}
