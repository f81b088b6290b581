package rest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"aether/engine"
	"aether/internal/bounded"
	"aether/sandbox"
)

// Attached is a sandbox that ends with this program, however that ends.
type Attached struct {
	engine.Sandbox
	answer io.ReadCloser
	unlink context.CancelFunc
}

// CreateAttached makes a sandbox that ends with Close, or with this program. The context
// bounds the making only.
func (c *Client) CreateAttached(ctx context.Context, req engine.CreateRequest) (*Attached, error) {
	life, unlink := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, unlink)
	res, err := c.send(life, call{op: "create", method: http.MethodPost, path: "/v1/attached", takes: req})
	if err != nil {
		unlink()
		return nil, errors.Join(ctx.Err(), err)
	}
	made := &Attached{answer: res.Body, unlink: unlink}
	err = json.NewDecoder(&bounded.Reader{From: res.Body, What: "the daemon's answer", Max: maxAnswer}).Decode(&made.Sandbox)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(c.failed(ctx, "create", err), made.Close())
	}
	return made, nil
}

// Close lets go of the sandbox, which ends soon after. Whoever wants to know that it has
// ended destroys it before.
func (a *Attached) Close() error {
	a.unlink()
	if err := a.answer.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return &sandbox.Error{Op: "let go of " + a.ID, Err: err}
	}
	return nil
}
