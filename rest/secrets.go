package rest

import (
	"context"
	"errors"
	"net/http"
	"path"

	"aether/engine"
	"aether/sandbox"
)

// Secrets are the methods of an engine that keeps secrets. An empty tenant is the caller's.
// None gives a value.
type Secrets interface {
	SetSecret(ctx context.Context, who engine.Caller, req engine.SecretRequest) (engine.Secret, error)
	Secrets(ctx context.Context, who engine.Caller, q engine.SecretQuery) (engine.SecretPage, error)
	RemoveSecret(ctx context.Context, who engine.Caller, tenant, name string) error
}

const (
	secretsPath = "/v1/secrets"
	// maxSecretBody has room for a value of which JSON escapes every byte, and its hosts.
	maxSecretBody = 512 << 10
)

var secretRoutes = []route{
	{method: "GET", path: secretsPath, name: "secret.list", status: 200, gives: engine.SecretPage{}, do: (*Server).listSecrets},
	{method: "PUT", path: secretsPath + "/{name}", name: "secret.set", status: 200, takes: engine.SecretRequest{}, gives: engine.Secret{}, do: (*Server).setSecret},
	{method: "DELETE", path: secretsPath + "/{name}", name: "secret.remove", status: 204, do: (*Server).removeSecret},
}

func (s *Server) setSecret(a *answer, r *request) (any, error) {
	tenant, err := tenantOf(r)
	if err != nil {
		return nil, err
	}
	req, err := s.secretBody(a, r)
	if err != nil {
		return nil, err
	}
	defer req.Value.Clear()
	req.Tenant, req.Name = tenant, r.PathValue("name")
	leave, err := s.creations.enter(r.who.Name)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.opts.Engine.SetSecret(r.Context(), r.who, req)
}

// secretBody reads the body of a secret that is to be set. Nothing of it is in an error,
// and the text is overwritten.
func (s *Server) secretBody(a *answer, r *request) (req engine.SecretRequest, err error) {
	text, err := s.receive(a, r, min(maxSecretBody, s.opts.Limits.BodyBytes))
	defer clear(text)
	if err != nil {
		return req, err
	}
	if err := declaredJSON(r); err != nil {
		return req, err
	}
	err = decode(text, &req)
	var ours *sandbox.Error
	switch {
	case errors.As(err, &ours) && ours.Field == "value":
		return req, ours // which says what is wrong, without the value
	case err != nil:
		return req, sandbox.Invalidf("body", "it is not an object of a value and, if there are any, hosts and metadata")
	}
	return req, nil
}

func (s *Server) listSecrets(_ *answer, r *request) (any, error) {
	q, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	if len(q.States)+len(q.Metadata) > 0 || q.Driver != "" || q.Template != "" {
		return nil, sandbox.Invalidf("query", "secrets are chosen by tenant alone")
	}
	return s.opts.Engine.Secrets(r.Context(), r.who, engine.SecretQuery{Tenant: q.Tenant, After: q.After, Limit: q.Limit})
}

func (s *Server) removeSecret(_ *answer, r *request) (any, error) {
	tenant, err := tenantOf(r)
	if err != nil {
		return nil, err
	}
	return nil, s.opts.Engine.RemoveSecret(r.Context(), r.who, tenant, r.PathValue("name"))
}

// secretAt is the path of a secret. A name that nothing can have leads nowhere else, and
// is not sent: it may be the value, in the wrong place.
func secretAt(name string) string {
	if !engine.IsSecretName(name) {
		name = "-"
	}
	return path.Join(secretsPath, name)
}

// sentSecret is the body of a secret on its way to the daemon, with its value.
type sentSecret struct {
	Value string   `json:"value"`
	Hosts []string `json:"hosts,omitzero"`
}

// SetSecret makes a secret, or replaces its value. Errors: Invalid; Exhausted.
func (c *Client) SetSecret(ctx context.Context, req engine.SecretRequest) (made engine.Secret, err error) {
	body := sentSecret{string(req.Value.Reveal()), req.Hosts}
	err = c.do(ctx, call{op: "set secret", method: http.MethodPut, path: secretAt(req.Name), query: ofTenant(req.Tenant), takes: body, gives: &made})
	return made, err
}

// Secrets gives a page of what is told of secrets, which is not their values.
func (c *Client) Secrets(ctx context.Context, q engine.SecretQuery) (page engine.SecretPage, err error) {
	query := formatQuery(engine.Query{Tenant: q.Tenant, After: q.After, Limit: q.Limit})
	err = c.do(ctx, call{op: "list secrets", method: http.MethodGet, path: secretsPath, query: query, gives: &page})
	return page, err
}

// RemoveSecret removes a secret of a tenant; empty is the caller's own. Errors: NotFound.
func (c *Client) RemoveSecret(ctx context.Context, tenant, name string) error {
	return c.do(ctx, call{op: "remove secret", method: http.MethodDelete, path: secretAt(name), query: ofTenant(tenant)})
}
