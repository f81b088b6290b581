package rest

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"time"

	"aether/engine"
	"aether/sandbox"
)

// Upkeep are the methods of an engine that those use who run it. All but Quotas refuse
// others than operators.
type Upkeep interface {
	Prune(ctx context.Context, who engine.Caller, req engine.PruneRequest) (engine.PruneReport, error)
	Doctor(ctx context.Context, who engine.Caller) (engine.Diagnosis, error)
	Quotas(ctx context.Context, who engine.Caller, tenant string) ([]engine.TenantQuota, error)
	Audit(ctx context.Context, who engine.Caller, after string, limit int) (engine.AuditPage, error)
}

// KeyStore makes, lists and revokes the keys that callers bring.
type KeyStore interface {
	Create(ctx context.Context, tenant string, operator bool, expires time.Time) (secret string, made engine.Key, err error)
	List(context.Context) ([]engine.Key, error)
	Revoke(ctx context.Context, id string) error
}

// KeyRequest is what a key is to be. A zero Expires is never.
type KeyRequest struct {
	Tenant   string    `json:"tenant"`
	Operator bool      `json:"operator,omitempty"`
	Expires  time.Time `json:"expires,omitzero"`
}

// CreatedKey is the only answer that has the key itself.
type CreatedKey struct {
	Secret string `json:"key"`
	engine.Key
}

// Keys is the answer of /v1/keys.
type Keys struct {
	Keys []engine.Key `json:"keys"`
}

// Quotas is the answer of /v1/quotas.
type Quotas struct {
	Quotas []engine.TenantQuota `json:"quotas"`
}

var operatorRoutes = []route{
	{method: "POST", path: "/v1/prune", name: "prune", access: operators, status: 200, takes: engine.PruneRequest{}, gives: engine.PruneReport{}, do: (*Server).prune},
	{method: "GET", path: "/v1/doctor", name: "doctor", access: operators, status: 200, gives: engine.Diagnosis{}, do: (*Server).doctor},
	{method: "GET", path: "/v1/audit", name: "audit", access: operators, status: 200, gives: engine.AuditPage{}, do: (*Server).auditTrail},
	{method: "GET", path: "/v1/quotas", name: "quotas", status: 200, gives: Quotas{}, do: (*Server).quotas},
	{method: "POST", path: "/v1/keys", name: "key.create", access: operators, status: 201, takes: KeyRequest{}, gives: CreatedKey{}, do: (*Server).createKey},
	{method: "GET", path: "/v1/keys", name: "key.list", access: operators, status: 200, gives: Keys{}, do: (*Server).listKeys},
	{method: "DELETE", path: "/v1/keys/{id}", name: "key.revoke", access: operators, status: 204, do: (*Server).revokeKey},
}

func (s *Server) prune(a *answer, r *request) (any, error) {
	var req engine.PruneRequest
	if err := s.body(a, r, &req); err != nil {
		return nil, err
	}
	return s.opts.Engine.Prune(r.Context(), r.who, req)
}

func (s *Server) doctor(_ *answer, r *request) (any, error) {
	return s.opts.Engine.Doctor(r.Context(), r.who)
}

func (s *Server) auditTrail(_ *answer, r *request) (any, error) {
	q, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	return s.opts.Engine.Audit(r.Context(), r.who, q.After, q.Limit)
}

func (s *Server) quotas(_ *answer, r *request) (any, error) {
	tenant, err := tenantOf(r)
	if err != nil {
		return nil, err
	}
	list, err := s.opts.Engine.Quotas(r.Context(), r.who, tenant)
	return Quotas{list}, err
}

// keyStore is what makes keys. Errors: Unsupported.
func (s *Server) keyStore() (KeyStore, error) {
	if s.opts.KeyStore == nil {
		return nil, &sandbox.Error{Class: sandbox.Unsupported, Reason: "this daemon does not make keys", Remedy: "use aether key"}
	}
	return s.opts.KeyStore, nil
}

func (s *Server) createKey(a *answer, r *request) (any, error) {
	var req KeyRequest
	if err := s.body(a, r, &req); err != nil {
		return nil, err
	}
	keys, err := s.keyStore()
	if err != nil {
		return nil, err
	}
	secret, made, err := keys.Create(r.Context(), req.Tenant, req.Operator, req.Expires)
	r.sandbox = made.ID
	return CreatedKey{secret, made}, err
}

func (s *Server) listKeys(_ *answer, r *request) (any, error) {
	keys, err := s.keyStore()
	if err != nil {
		return nil, err
	}
	list, err := keys.List(r.Context())
	if list == nil {
		list = []engine.Key{}
	}
	return Keys{list}, err
}

func (s *Server) revokeKey(_ *answer, r *request) (any, error) {
	keys, err := s.keyStore()
	if err != nil {
		return nil, err
	}
	return nil, keys.Revoke(r.Context(), r.PathValue("id"))
}

// Prune removes what nothing refers to. It is for operators, as Doctor, Audit and what is
// about keys.
func (c *Client) Prune(ctx context.Context, req engine.PruneRequest) (report engine.PruneReport, err error) {
	err = c.do(ctx, call{op: "prune", method: http.MethodPost, path: "/v1/prune", takes: req, gives: &report})
	return report, err
}

// Doctor finds paused sandboxes that the daemon's host can no longer resume.
func (c *Client) Doctor(ctx context.Context) (found engine.Diagnosis, err error) {
	err = c.do(ctx, call{op: "doctor", method: http.MethodGet, path: "/v1/doctor", gives: &found})
	return found, err
}

// Audit gives a page of the audit trail.
func (c *Client) Audit(ctx context.Context, after string, limit int) (page engine.AuditPage, err error) {
	query := formatQuery(engine.Query{After: after, Limit: limit})
	err = c.do(ctx, call{op: "audit", method: http.MethodGet, path: "/v1/audit", query: query, gives: &page})
	return page, err
}

// Quotas says what a tenant has and may have; without one, the caller, or all tenants if
// that is an operator.
func (c *Client) Quotas(ctx context.Context, tenant string) ([]engine.TenantQuota, error) {
	var list Quotas
	err := c.do(ctx, call{op: "quotas", method: http.MethodGet, path: "/v1/quotas", query: ofTenant(tenant), gives: &list})
	return list.Quotas, err
}

// CreateKey makes a key and says what it is, once.
func (c *Client) CreateKey(ctx context.Context, req KeyRequest) (made CreatedKey, err error) {
	err = c.do(ctx, call{op: "create key", method: http.MethodPost, path: "/v1/keys", takes: req, gives: &made})
	return made, err
}

// ListKeys gives all keys, oldest first.
func (c *Client) ListKeys(ctx context.Context) ([]engine.Key, error) {
	var list Keys
	err := c.do(ctx, call{op: "list keys", method: http.MethodGet, path: "/v1/keys", gives: &list})
	return list.Keys, err
}

// RevokeKey has a key open nothing from now on. Errors: NotFound.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	return c.do(ctx, call{op: "revoke key " + id, method: http.MethodDelete, path: path.Join("/v1/keys", url.PathEscape(id))})
}
