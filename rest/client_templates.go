package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"aether/engine"
	"aether/internal/bounded"
)

const templatesPath = "/v1/templates"

// templateAt is the path of something of a template. What nothing can be called becomes
// something else that nothing is.
func templateAt(template string, of ...string) string {
	if template == "" || strings.ContainsAny(template, "/?#%\\") || strings.Trim(template, ".") == "" {
		template = "-"
	}
	return path.Join(append([]string{templatesPath, template}, of...)...)
}

// PrepareTemplate makes the next version of a template. notify, unless it is nil, is told
// what is done meanwhile. The preparation ends with the context. With a Key, the same call
// gives the same answer.
func (c *Client) PrepareTemplate(ctx context.Context, req engine.TemplateRequest, notify func(TemplateProgress)) (engine.TemplateInfo, error) {
	op := "template " + req.Recipe.Name
	res, err := c.send(ctx, call{op: op, method: http.MethodPost, path: templatesPath, takes: req, headers: map[string]string{idempotencyHeader: req.Key}})
	if err != nil {
		return engine.TemplateInfo{}, err
	}
	defer res.Body.Close()
	lines := json.NewDecoder(&bounded.Reader{From: res.Body, What: "the daemon's answer", Max: maxAnswer})
	for {
		var p TemplateProgress
		switch err := lines.Decode(&p); {
		case err != nil:
			return engine.TemplateInfo{}, c.failed(ctx, op, err)
		case p.Error != nil:
			return engine.TemplateInfo{}, errorOf(op, *p.Error)
		case p.Template != nil:
			return *p.Template, nil
		case notify != nil:
			notify(p)
		}
	}
}

// Promote makes a template of a sandbox, which goes on. With a Key, the same call gives the
// same answer.
func (c *Client) Promote(ctx context.Context, id string, req engine.PromoteRequest) (info engine.TemplateInfo, err error) {
	err = c.do(ctx, call{op: "promote " + id, method: http.MethodPost, path: at(id, "promote"), takes: req, gives: &info, headers: map[string]string{idempotencyHeader: req.Key}})
	return info, err
}

// GetTemplate finds a template, by NAME, NAME:TAG or NAME@VERSION. Errors: NotFound.
func (c *Client) GetTemplate(ctx context.Context, template string) (info engine.TemplateInfo, err error) {
	err = c.do(ctx, call{op: "get", method: http.MethodGet, path: templateAt(template), gives: &info})
	return info, err
}

// ListTemplates gives a page of the templates that a query chooses.
func (c *Client) ListTemplates(ctx context.Context, q engine.TemplateQuery) (page engine.TemplatePage, err error) {
	values := url.Values{}
	for name, value := range map[string]string{"tenant": q.Tenant, "name": q.Name, "after": q.After} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if q.Limit != 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	err = c.do(ctx, call{op: "templates", method: http.MethodGet, path: templatesPath, query: values.Encode(), gives: &page})
	return page, err
}

// RemoveTemplate removes a version of a template, or all of a name.
func (c *Client) RemoveTemplate(ctx context.Context, template string) error {
	return c.do(ctx, call{op: "remove", method: http.MethodDelete, path: templateAt(template)})
}

// ChangeTemplate changes the tags of a template, or how many children are kept ready.
func (c *Client) ChangeTemplate(ctx context.Context, template string, change engine.TemplateChange) (info engine.TemplateInfo, err error) {
	err = c.do(ctx, call{op: "change", method: http.MethodPatch, path: templateAt(template), takes: change, gives: &info})
	return info, err
}

// TemplateTree lists who was forked from whom, and from a template in the end.
func (c *Client) TemplateTree(ctx context.Context, template string) ([]engine.Node, error) {
	var tree TemplateTree
	err := c.do(ctx, call{op: "tree", method: http.MethodGet, path: templateAt(template, "tree"), gives: &tree})
	return tree.Nodes, err
}
