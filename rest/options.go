package rest

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"aether/engine"
	"aether/sandbox"
)

// Options are what a server is made of.
type Options struct {
	Engine Engine
	// Keys tells whose a key is. Nil refuses every key.
	Keys Authenticator
	// KeyStore makes the keys that operators ask for. Nil answers Unsupported.
	KeyStore KeyStore
	// Systems lists the systems of this build. Nil answers Unsupported.
	Systems func(context.Context) ([]System, error)
	// Count says how many sandboxes there are, by driver and state, for the metrics. Nil
	// says nothing.
	Count func() map[string]map[engine.State]int
	// Images has a function be told how the images come that something done with the
	// context that it gives needs. Nil tells nothing of them.
	Images func(ctx context.Context, tell func(ImageProgress)) context.Context
	// Audit is told of every request, by many at once. Nil tells nobody.
	Audit func(Call)
	// Agents answers at /mcp. Nil answers Unsupported.
	Agents Agents
	// Doors are other handlers on the same listeners, by the patterns of
	// http.ServeMux. Each finds out who calls by Server.Caller.
	Doors map[string]http.Handler
	// Dialects are other APIs on the same listeners.
	Dialects []Dialect
	// Limits bound what callers can send and hold.
	Limits Limits
	// Logger is told of defects. Nil means slog.Default().
	Logger *slog.Logger
}

// Limits bound a server. A zero field is the default.
type Limits struct {
	// BodyBytes bounds a body of JSON, 1 MiB by default.
	BodyBytes int64
	// Connections bounds those of one listener; the next one waits. 4096 by default.
	Connections int
	// Creations bounds creations and forks at once, 128 by default.
	Creations int
	// Streams bounds requests to guest services and followers of events at once, and
	// CallerStreams those of one caller: 4096 and 1024 by default.
	Streams, CallerStreams int
	// Rate is how many requests a second one key may make, and Burst how many at
	// once: 1000 and 2000 by default.
	Rate, Burst float64
	// Receive is the time for a request's header, and again for its body, 10 s by
	// default; guest services take bodies that last.
	Receive time.Duration
	// Stall is how long a reader may take for what is sent to it, 30 s by default.
	Stall time.Duration
	// Idle is how long a connection may be without a request, 2 minutes by default.
	Idle time.Duration
}

const (
	maxHeader = 64 << 10
	// heartbeat is how often a stream of events says that it is alive.
	heartbeat = 15 * time.Second
)

func (l Limits) withDefaults() Limits {
	l.BodyBytes = cmp.Or(l.BodyBytes, 1<<20)
	l.Connections = cmp.Or(l.Connections, 4096)
	l.Creations = cmp.Or(l.Creations, 128)
	l.Streams = cmp.Or(l.Streams, 4096)
	l.CallerStreams = cmp.Or(l.CallerStreams, 1024)
	l.Rate = cmp.Or(l.Rate, 1000)
	l.Burst = cmp.Or(l.Burst, 2*l.Rate)
	l.Receive = cmp.Or(l.Receive, 10*time.Second)
	l.Stall = cmp.Or(l.Stall, 30*time.Second)
	l.Idle = cmp.Or(l.Idle, 2*time.Minute)
	return l
}

func (o Options) validate() error {
	if o.Engine == nil {
		return sandbox.Invalidf("engine", "a door needs one to open to")
	}
	l := o.Limits
	if l.BodyBytes < 0 || min(l.Connections, l.Creations, l.Streams, l.CallerStreams) < 0 || min(l.Rate, l.Burst) < 0 || min(l.Receive, l.Stall, l.Idle) < 0 {
		return sandbox.Invalidf("limits", "one is negative")
	}
	return nil
}
