package rest

import (
	"net/http"
	"slices"
	"strings"

	"aether/engine"
	"aether/sandbox"
)

// access is whom a route is for.
type access int

const (
	callers access = iota
	operators
	anyone
)

// route is one thing that can be asked for. It either gives a value, which becomes the
// answer of its status, or it writes its answer itself, for as long as that takes.
type route struct {
	method, path string
	name         string
	access       access
	status       int
	takes, gives any // the bodies, as the description has them
	do           func(*Server, *answer, *request) (any, error)
	stream       func(*Server, *answer, *request) error
	// told says that the audit trail is told of what is done there by whoever does it, and
	// by the door of what it refuses alone.
	told bool
	// who and refuse are of a dialect, which has its own ways to tell callers and to refuse.
	who    func(*http.Request) (engine.Caller, error)
	refuse func(http.ResponseWriter, *http.Request, int, Failure)
}

// routes are all that can be asked for.
var routes = slices.Concat(sandboxRoutes, networkRoutes, volumeRoutes, secretRoutes, operatorRoutes, systemRoutes, agentRoutes)

var sandboxRoutes = []route{
	{method: "GET", path: "/health", name: "health", access: anyone, status: 204, do: (*Server).health},
	{method: "GET", path: "/ready", name: "ready", access: anyone, status: 204, do: (*Server).ready},
	{method: "GET", path: "/metrics", name: "metrics", access: operators, stream: (*Server).writeMetrics},
	{method: "GET", path: "/v1/openapi.json", name: "openapi", access: anyone, status: 200, do: (*Server).describe},
	{method: "GET", path: "/v1/systems", name: "systems", status: 200, gives: Systems{}, do: (*Server).systems},
	{method: "GET", path: "/v1/events", name: "events", stream: (*Server).events},
	{method: "POST", path: "/v1/sandboxes", name: "sandbox.create", status: 201, takes: engine.CreateRequest{}, gives: engine.Sandbox{}, do: (*Server).create},
	{method: "POST", path: "/v1/attached", name: "sandbox.attached", takes: engine.CreateRequest{}, gives: engine.Sandbox{}, stream: (*Server).attached},
	{method: "GET", path: "/v1/sandboxes", name: "sandbox.list", status: 200, gives: engine.Page{}, do: (*Server).list},
	{method: "GET", path: "/v1/sandboxes/{id}", name: "sandbox.get", status: 200, gives: engine.Sandbox{}, do: (*Server).get},
	{method: "DELETE", path: "/v1/sandboxes/{id}", name: "sandbox.destroy", status: 204, do: (*Server).destroy},
	{method: "PATCH", path: "/v1/sandboxes/{id}", name: "sandbox.change", status: 200, takes: Change{}, gives: engine.Sandbox{}, do: (*Server).change},
	{method: "POST", path: "/v1/sandboxes/{id}/pause", name: "sandbox.pause", status: 200, takes: PauseRequest{}, gives: engine.Sandbox{}, do: (*Server).pause},
	{method: "POST", path: "/v1/sandboxes/{id}/resume", name: "sandbox.resume", status: 200, takes: ResumeRequest{}, gives: engine.Sandbox{}, do: (*Server).resume},
	{method: "POST", path: "/v1/sandboxes/{id}/fork", name: "sandbox.fork", status: 201, takes: engine.ForkRequest{}, gives: Forked{}, do: (*Server).fork},
	{method: "POST", path: "/v1/sandboxes/{id}/rollback", name: "sandbox.rollback", status: 200, takes: engine.RollbackRequest{}, gives: engine.Sandbox{}, do: (*Server).rollback},
	{method: "POST", path: "/v1/sandboxes/{id}/snapshots", name: "snapshot.create", status: 201, takes: engine.SnapshotRequest{}, gives: engine.Snapshot{}, do: (*Server).snapshot},
	{method: "GET", path: "/v1/snapshots", name: "snapshot.list", status: 200, gives: engine.SnapshotPage{}, do: (*Server).listSnapshots},
	{method: "GET", path: "/v1/snapshots/{id}", name: "snapshot.get", status: 200, gives: engine.Snapshot{}, do: (*Server).getSnapshot},
	{method: "DELETE", path: "/v1/snapshots/{id}", name: "snapshot.delete", status: 204, do: (*Server).deleteSnapshot},
	{method: "POST", path: "/v1/sandboxes/{id}/marks", name: "mark.create", status: 201, takes: MarkRequest{}, gives: engine.Mark{}, do: (*Server).mark},
	{method: "GET", path: "/v1/sandboxes/{id}/marks", name: "mark.list", status: 200, gives: Marks{}, do: (*Server).listMarks},
	{method: "DELETE", path: "/v1/sandboxes/{id}/marks/{name}", name: "mark.delete", status: 204, do: (*Server).deleteMark},
	{method: "POST", path: "/v1/sandboxes/{id}/exec", name: "sandbox.exec", status: 200, takes: ExecRequest{}, gives: ExecResult{}, do: (*Server).exec},
	{method: "GET", path: "/v1/sandboxes/{id}/stats", name: "sandbox.stats", status: 200, gives: sandbox.Stats{}, do: (*Server).stats},
	{method: "GET", path: "/v1/sandboxes/{id}/console", name: "sandbox.console", status: 200, gives: Output{}, do: (*Server).console},
	{method: "POST", path: "/v1/sandboxes/{id}/promote", name: "sandbox.promote", status: 201, takes: engine.PromoteRequest{}, gives: engine.TemplateInfo{}, do: (*Server).promote},
	{method: "POST", path: "/v1/templates", name: "template.prepare", takes: engine.TemplateRequest{}, gives: TemplateProgress{}, stream: (*Server).prepareTemplate},
	{method: "GET", path: "/v1/templates", name: "template.list", status: 200, gives: engine.TemplatePage{}, do: (*Server).listTemplates},
	{method: "GET", path: "/v1/templates/{template}", name: "template.get", status: 200, gives: engine.TemplateInfo{}, do: (*Server).getTemplate},
	{method: "DELETE", path: "/v1/templates/{template}", name: "template.remove", status: 204, do: (*Server).removeTemplate},
	{method: "PATCH", path: "/v1/templates/{template}", name: "template.change", status: 200, takes: engine.TemplateChange{}, gives: engine.TemplateInfo{}, do: (*Server).changeTemplate},
	{method: "GET", path: "/v1/templates/{template}/tree", name: "template.tree", status: 200, gives: TemplateTree{}, do: (*Server).templateTree},
	{method: "GET", path: "/v1/sandboxes/{id}/guest/{path...}", name: "sandbox.guest", stream: (*Server).guest},
	{method: "POST", path: "/v1/sandboxes/{id}/guest/{path...}", name: "sandbox.guest", stream: (*Server).guest},
}

// newMux leads each request to its route. What has none is refused in the same shape as
// everything else, after finding out who asks.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for i := range routes {
		rt := &routes[i]
		methods[rt.path] = append(methods[rt.path], rt.method)
		mux.HandleFunc(rt.method+" "+rt.path, func(w http.ResponseWriter, r *http.Request) { s.serve(rt, w, r) })
	}
	for path, allowed := range methods {
		other := &route{path: path, name: "method", do: wrongMethod(allowed)}
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { s.serve(other, w, r) })
	}
	nowhere := &route{name: "nowhere", do: noSuchPath}
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) { s.serve(nowhere, w, r) })
	if s.opts.Doors["/"] == nil {
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.serve(nowhere, w, r) })
	}
	for pattern, door := range s.opts.Doors {
		mux.Handle(pattern, door)
	}
	for _, d := range s.opts.Dialects {
		s.teach(mux, d)
	}
	return mux
}

func wrongMethod(allowed []string) func(*Server, *answer, *request) (any, error) {
	list := strings.Join(allowed, ", ")
	return func(_ *Server, a *answer, _ *request) (any, error) {
		a.Header().Set("Allow", list)
		return nil, &statusError{&sandbox.Error{Class: sandbox.Invalid, Field: "method", Reason: "this path takes " + list}, http.StatusMethodNotAllowed}
	}
}

func noSuchPath(*Server, *answer, *request) (any, error) {
	return nil, &sandbox.Error{Class: sandbox.NotFound, Field: "path", Reason: "there is no such path", Remedy: "see /v1/openapi.json"}
}

func (s *Server) health(*answer, *request) (any, error) { return nil, nil }

func (s *Server) ready(*answer, *request) (any, error) {
	if s.draining.Load() || s.life.Err() != nil { // also if DrainIdle, meanwhile, has found somebody
		return nil, &sandbox.Error{Class: sandbox.Unavailable, Reason: "the daemon is about to end", Retry: true}
	}
	return nil, nil
}

func (s *Server) systems(_ *answer, r *request) (any, error) {
	if s.opts.Systems == nil {
		return nil, &sandbox.Error{Class: sandbox.Unsupported, Reason: "this daemon does not list its systems"}
	}
	list, err := s.opts.Systems(r.Context())
	return Systems{list}, err
}
