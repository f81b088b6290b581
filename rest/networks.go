package rest

import (
	"context"
	"net/http"

	"aether/engine"
	"aether/sandbox"
)

// NetworkDecisions are what was decided about the network of a sandbox.
type NetworkDecisions struct {
	// Decisions are those that differ, least recent first, each with how often.
	Decisions []sandbox.NetworkDecision `json:"decisions"`
	// Missed is how many are not remembered.
	Missed int64 `json:"missed,omitempty"`
}

var networkRoutes = []route{
	{method: "PUT", path: "/v1/sandboxes/{id}/network", name: "network.set", status: 200, takes: sandbox.Network{}, gives: engine.Sandbox{}, do: (*Server).setNetwork},
	{method: "GET", path: "/v1/sandboxes/{id}/network/log", name: "network.log", status: 200, gives: NetworkDecisions{}, do: (*Server).networkLog},
}

func (s *Server) setNetwork(a *answer, r *request) (any, error) {
	var n sandbox.Network
	if err := s.body(a, r, &n); err != nil {
		return nil, err
	}
	return s.opts.Engine.SetNetwork(r.Context(), r.who, r.PathValue("id"), n)
}

func (s *Server) networkLog(_ *answer, r *request) (any, error) {
	list, missed, err := s.opts.Engine.NetworkLog(r.Context(), r.who, r.PathValue("id"))
	if list == nil {
		list = []sandbox.NetworkDecision{}
	}
	return NetworkDecisions{list, missed}, err
}

// SetNetwork changes what a sandbox may reach, at once.
func (c *Client) SetNetwork(ctx context.Context, id string, n sandbox.Network) (now engine.Sandbox, err error) {
	err = c.do(ctx, call{op: "network of " + id, method: http.MethodPut, path: at(id, "network"), takes: n, gives: &now})
	return now, err
}

// NetworkLog tells what was decided about the network of a sandbox. Names in it are what
// the sandbox asked for.
func (c *Client) NetworkLog(ctx context.Context, id string) (log NetworkDecisions, err error) {
	err = c.do(ctx, call{op: "network of " + id, method: http.MethodGet, path: at(id, "network", "log"), gives: &log})
	return log, err
}
