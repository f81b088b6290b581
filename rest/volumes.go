package rest

import (
	"context"
	"net/http"
	"net/url"
	"path"

	"aether/engine"
	"aether/sandbox"
)

// Volumes are the methods of an engine that has volumes. An empty tenant is the caller's.
type Volumes interface {
	CreateVolume(ctx context.Context, who engine.Caller, req engine.VolumeRequest) (engine.Volume, error)
	GetVolume(ctx context.Context, who engine.Caller, tenant, name string) (engine.Volume, error)
	ListVolumes(ctx context.Context, who engine.Caller, q engine.VolumeQuery) (engine.VolumePage, error)
	DeleteVolume(ctx context.Context, who engine.Caller, tenant, name string) error
}

const volumesPath = "/v1/volumes"

var volumeRoutes = []route{
	{method: "POST", path: volumesPath, name: "volume.create", status: 201, takes: engine.VolumeRequest{}, gives: engine.Volume{}, do: (*Server).createVolume},
	{method: "GET", path: volumesPath, name: "volume.list", status: 200, gives: engine.VolumePage{}, do: (*Server).listVolumes},
	{method: "GET", path: volumesPath + "/{name}", name: "volume.get", status: 200, gives: engine.Volume{}, do: (*Server).getVolume},
	{method: "DELETE", path: volumesPath + "/{name}", name: "volume.delete", status: 204, do: (*Server).deleteVolume},
}

func (s *Server) createVolume(a *answer, r *request) (any, error) {
	var req engine.VolumeRequest
	if err := s.body(a, r, &req); err != nil {
		return nil, err
	}
	var err error
	if req.Key, err = idempotencyKey(r); err != nil {
		return nil, err
	}
	r.sandbox = req.Name
	leave, err := s.creations.enter(r.who.Name)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.opts.Engine.CreateVolume(r.Context(), r.who, req)
}

func (s *Server) listVolumes(_ *answer, r *request) (any, error) {
	q, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	if len(q.States)+len(q.Metadata) > 0 || q.Driver != "" || q.Template != "" {
		return nil, sandbox.Invalidf("query", "volumes are chosen by tenant alone")
	}
	return s.opts.Engine.ListVolumes(r.Context(), r.who, engine.VolumeQuery{Tenant: q.Tenant, After: q.After, Limit: q.Limit})
}

func (s *Server) getVolume(_ *answer, r *request) (any, error) {
	tenant, err := tenantOf(r)
	if err != nil {
		return nil, err
	}
	return s.opts.Engine.GetVolume(r.Context(), r.who, tenant, r.PathValue("name"))
}

func (s *Server) deleteVolume(_ *answer, r *request) (any, error) {
	tenant, err := tenantOf(r)
	if err != nil {
		return nil, err
	}
	return nil, s.opts.Engine.DeleteVolume(r.Context(), r.who, tenant, r.PathValue("name"))
}

// tenantOf reads whose something is, for operators, from the query.
func tenantOf(r *request) (string, error) {
	q, err := parseQuery(r.URL.RawQuery)
	return q.Tenant, err
}

// volumeAt is the path of a volume. A name that nothing can have leads nowhere else.
func volumeAt(name string) string {
	if !sandbox.IsName(name, maxID) {
		name = "-"
	}
	return path.Join(volumesPath, name)
}

// ofTenant is the query for something of another tenant's.
func ofTenant(tenant string) string {
	if tenant == "" {
		return ""
	}
	return url.Values{"tenant": {tenant}}.Encode()
}

// CreateVolume makes a volume. With a Key, the same call gives the same answer.
func (c *Client) CreateVolume(ctx context.Context, req engine.VolumeRequest) (made engine.Volume, err error) {
	err = c.do(ctx, call{op: "create volume " + req.Name, method: http.MethodPost, path: volumesPath, takes: req, gives: &made, headers: map[string]string{idempotencyHeader: req.Key}})
	return made, err
}

// GetVolume finds a volume of a tenant; empty is the caller's own. Errors: NotFound.
func (c *Client) GetVolume(ctx context.Context, tenant, name string) (found engine.Volume, err error) {
	err = c.do(ctx, call{op: "get volume " + name, method: http.MethodGet, path: volumeAt(name), query: ofTenant(tenant), gives: &found})
	return found, err
}

// ListVolumes gives a page of volumes.
func (c *Client) ListVolumes(ctx context.Context, q engine.VolumeQuery) (page engine.VolumePage, err error) {
	query := formatQuery(engine.Query{Tenant: q.Tenant, After: q.After, Limit: q.Limit})
	err = c.do(ctx, call{op: "list volumes", method: http.MethodGet, path: volumesPath, query: query, gives: &page})
	return page, err
}

// DeleteVolume removes a volume of a tenant, and what is in it; empty is the caller's own.
// Errors: NotFound; Conflict while a sandbox uses it.
func (c *Client) DeleteVolume(ctx context.Context, tenant, name string) error {
	return c.do(ctx, call{op: "delete volume " + name, method: http.MethodDelete, path: volumeAt(name), query: ofTenant(tenant)})
}
