package rest

import (
	"context"
	"net/http"
	"path"
	"time"

	"aether/engine"
	"aether/sandbox"
)

const sandboxesPath = "/v1/sandboxes"

// at is the path of something of a sandbox. An id that nothing can have becomes another
// such one, which leads nowhere else.
func at(id string, of ...string) string {
	return path.Join(append([]string{sandboxesPath, named(id)}, of...)...)
}

// Create makes a sandbox. With a Key, the same call gives the same answer.
func (c *Client) Create(ctx context.Context, req engine.CreateRequest) (made engine.Sandbox, err error) {
	err = c.do(ctx, call{op: "create", method: http.MethodPost, path: sandboxesPath, takes: req, gives: &made, headers: map[string]string{idempotencyHeader: req.Key}})
	return made, err
}

// Get finds a sandbox. Errors: NotFound.
func (c *Client) Get(ctx context.Context, id string) (found engine.Sandbox, err error) {
	err = c.do(ctx, call{op: "get " + id, method: http.MethodGet, path: at(id), gives: &found})
	return found, err
}

// List gives a page of the sandboxes that a query chooses.
func (c *Client) List(ctx context.Context, q engine.Query) (page engine.Page, err error) {
	err = c.do(ctx, call{op: "list", method: http.MethodGet, path: sandboxesPath, query: formatQuery(q), gives: &page})
	return page, err
}

// Destroy ends a sandbox.
func (c *Client) Destroy(ctx context.Context, id string) error {
	return c.do(ctx, call{op: "destroy " + id, method: http.MethodDelete, path: at(id)})
}

// SetTimeout gives a sandbox so long from now; zero is no end.
func (c *Client) SetTimeout(ctx context.Context, id string, after time.Duration, then engine.Then) (engine.Sandbox, error) {
	return c.change(ctx, id, Change{Timeout: &after, Then: then})
}

// SetMetadata replaces the metadata of a sandbox.
func (c *Client) SetMetadata(ctx context.Context, id string, m map[string]string) (engine.Sandbox, error) {
	if m == nil {
		m = map[string]string{}
	}
	return c.change(ctx, id, Change{Metadata: m})
}

func (c *Client) change(ctx context.Context, id string, change Change) (now engine.Sandbox, err error) {
	err = c.do(ctx, call{op: "change " + id, method: http.MethodPatch, path: at(id), takes: change, gives: &now})
	return now, err
}

// Stats says what a sandbox uses now.
func (c *Client) Stats(ctx context.Context, id string) (stats sandbox.Stats, err error) {
	err = c.do(ctx, call{op: "stats " + id, method: http.MethodGet, path: at(id, "stats"), gives: &stats})
	return stats, err
}

// Console gives the end of what a sandbox has written to its console. It is the guest's.
func (c *Client) Console(ctx context.Context, id string) (end Output, err error) {
	err = c.do(ctx, call{op: "console " + id, method: http.MethodGet, path: at(id, "console"), gives: &end})
	return end, err
}

// Pause keeps a sandbox as a checkpoint, with nothing running: its memory with its files,
// as for an empty fidelity, or its files alone.
func (c *Client) Pause(ctx context.Context, id string, keep sandbox.Fidelity) (now engine.Sandbox, err error) {
	err = c.do(ctx, call{op: "pause " + id, method: http.MethodPost, path: at(id, "pause"), takes: PauseRequest{keep}, gives: &now})
	return now, err
}

// Resume has a paused sandbox go on, with all that was kept, as for an empty fidelity, or
// with its files alone.
func (c *Client) Resume(ctx context.Context, id string, give sandbox.Fidelity) (now engine.Sandbox, err error) {
	err = c.do(ctx, call{op: "resume " + id, method: http.MethodPost, path: at(id, "resume"), takes: ResumeRequest{give}, gives: &now})
	return now, err
}

// Fork branches a sandbox. With a Key, the same call gives the same answer.
func (c *Client) Fork(ctx context.Context, id string, req engine.ForkRequest) ([]engine.Sandbox, error) {
	var made Forked
	err := c.do(ctx, call{op: "fork " + id, method: http.MethodPost, path: at(id, "fork"), takes: req, gives: &made, headers: map[string]string{idempotencyHeader: req.Key}})
	return made.Sandboxes, err
}

// Exec runs a command to its end.
func (c *Client) Exec(ctx context.Context, id string, req ExecRequest) (result ExecResult, err error) {
	err = c.do(ctx, call{op: "exec in " + id, method: http.MethodPost, path: at(id, "exec"), takes: req, gives: &result})
	return result, err
}

// Systems lists the isolation systems of the daemon's host.
func (c *Client) Systems(ctx context.Context) ([]System, error) {
	var list Systems
	err := c.do(ctx, call{op: "systems", method: http.MethodGet, path: "/v1/systems", gives: &list})
	return list.Systems, err
}

// Ready asks whether the daemon takes requests. Errors: Unavailable.
func (c *Client) Ready(ctx context.Context) error {
	return c.do(ctx, call{op: "ready", method: http.MethodGet, path: "/ready"})
}
