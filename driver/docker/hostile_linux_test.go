package docker

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"aether/driver/daemon/daemontest"
)

// TestHostileDaemon: what a daemon says has parts that its containers choose, and ends
// here even if it does not there.
func TestHostileDaemon(t *testing.T) {
	for name, c := range map[string]struct {
		beginning bool
		ask       func(context.Context, *client) error
	}{
		"negotiate": {true, func(ctx context.Context, c *client) error { return c.negotiate(ctx) }},
		"get": {false, func(ctx context.Context, c *client) error {
			var list []struct{ RepoTags []string }
			return c.get(ctx, "/images/json", nil, &list)
		}},
		"post": {true, func(ctx context.Context, c *client) error { return c.post(ctx, "/containers/x/start", nil) }},
		"import": {false, func(ctx context.Context, c *client) error {
			answer, err := c.send(ctx, http.MethodPost, "/images/create", nil, "application/x-tar", strings.NewReader("x"))
			if err != nil {
				return err
			}
			return errors.Join(importError(answer), answer.Close())
		}},
		"attach": {false, func(ctx context.Context, c *client) error {
			_, err := (&engine{api: c}).attach(ctx, "x")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			daemontest.Hostile(t, c.beginning, func(ctx context.Context, socket string) error { return c.ask(ctx, connect(socket)) })
		})
	}
}
