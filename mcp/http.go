package mcp

import (
	"context"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"aether/tool"
)

// caller is the key of what is known of the one who sent a message.
type caller struct{}

// request is a message that came over HTTP.
type request struct {
	session *tool.Session
	ctx     context.Context
}

// calling is the context of a call, which ends when its caller is gone.
func calling(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	from, ok := ctx.Value(caller{}).(request)
	if !ok {
		return ctx, cancel
	}
	stop := context.AfterFunc(from.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// Handler answers messages that come over HTTP, each by the session of its sender.
type Handler struct {
	http http.Handler
}

// NewHandler makes a handler. Bodies are bounded by whoever calls it.
func NewHandler(opts Options) (*Handler, error) {
	servers := map[tool.Profile]*sdk.Server{}
	for _, p := range tool.Profiles() {
		tools, err := tool.Of(p)
		if err != nil {
			return nil, err
		}
		servers[p] = newServer(tools, func(ctx context.Context) *tool.Session { return ctx.Value(caller{}).(request).session }, opts)
	}
	choose := func(r *http.Request) *sdk.Server { return servers[ProfileOf(r)] }
	return &Handler{sdk.NewStreamableHTTPHandler(choose, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true, Logger: opts.Logger,
		MaxRequestBodyBytes: maxMessage, PropagateRequestCancellation: true,
		// Who may call, and from which pages, is decided before.
		DisableLocalhostProtection: true})}, nil
}

// ProfileOf is the profile that a request asks for: compact, unless it says otherwise.
func ProfileOf(r *http.Request) tool.Profile {
	if p := r.URL.Query().Get("profile"); p != "" {
		return tool.Profile(p)
	}
	return tool.Compact
}

// Serve answers one message, by the session of its sender.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, s *tool.Session) {
	h.http.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), caller{}, request{s, r.Context()})))
}
