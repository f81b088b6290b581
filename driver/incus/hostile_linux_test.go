package incus

import (
	"context"
	"net/http"
	"testing"

	"aether/driver/daemon/daemontest"
)

// TestHostileDaemon: what a daemon says has parts that its containers choose, and ends
// here even if it does not there.
func TestHostileDaemon(t *testing.T) {
	for name, ask := range map[string]func(context.Context, *client) error{
		"ping": func(ctx context.Context, c *client) error { _, err := c.ping(ctx); return err },
		"get":  func(ctx context.Context, c *client) error { return c.get(ctx, "/1.0", &[]pool{}) },
		"do":   func(ctx context.Context, c *client) error { return c.do(ctx, http.MethodPost, "/1.0/instances", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			daemontest.Hostile(t, false, func(ctx context.Context, socket string) error { return ask(ctx, connect(socket)) })
		})
	}
	t.Run("read", func(t *testing.T) {
		daemontest.Hostile(t, true, func(ctx context.Context, socket string) error {
			_, err := connect(socket).read(ctx, "/1.0/instances/x/logs/lxc.log", 4<<10)
			return err
		})
	})
}
