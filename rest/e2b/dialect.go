package e2b

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// Engine is what the dialect opens to.
type Engine interface {
	rest.Engine
	// CountMatching says how many sandboxes List would give in all of its pages.
	CountMatching(ctx context.Context, who engine.Caller, q engine.Query) (int, error)
	// HasArchive says whether an archive of files for templates is there, and KeepArchive
	// keeps one.
	HasArchive(ctx context.Context, who engine.Caller, name string) (bool, error)
	KeepArchive(ctx context.Context, who engine.Caller, name string, from io.Reader) error
}

var _ Engine = (*engine.Engine)(nil)

// Options are what a dialect is made of.
type Options struct {
	Engine Engine
	// Key is what tokens of sandboxes are derived from: see OpenKey.
	Key []byte
	// Domain is that of the hosts PORT-ID.DOMAIN, without a port; empty is whatever a
	// request names.
	Domain string
}

// Dialect is the API of E2B, to be given to a rest.Server.
type Dialect struct {
	engine Engine
	tokens tokens
	domain string
	ports  *ports
	books  *books
	builds *builds
}

var _ rest.Dialect = (*Dialect)(nil)

// New makes a dialect. Errors: Invalid.
func New(opts Options) (*Dialect, error) {
	if opts.Engine == nil || len(opts.Key) != keyBytes {
		return nil, sandbox.Invalidf("options", "a dialect needs an engine and a key of %d bytes", keyBytes)
	}
	return &Dialect{engine: opts.Engine, tokens: opts.Key, domain: opts.Domain, ports: newPorts(opts.Engine), books: newBooks(opts.Engine), builds: newBuilds()}, nil
}

// Close ends the builds that run, and lets go of connections that are kept for later.
func (d *Dialect) Close() {
	d.builds.close()
	d.ports.plain.CloseIdleConnections()
	d.ports.h2.CloseIdleConnections()
}

// Operations implements rest.Dialect.
func (d *Dialect) Operations() []rest.Operation {
	list := slices.Concat(d.sandboxOperations(), d.otherOperations(), d.templateOperations(), d.secretOperations(), absentOperations())
	for i := range list {
		if list[i].Refuse == nil {
			list[i].Refuse = refuse
		}
	}
	return list
}

// failure is the body of a refusal. Clients look at its code, not at the status.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func refuse(w http.ResponseWriter, _ *http.Request, status int, why rest.Failure) {
	writeJSON(w, status, failure{status, message(why)})
}

// message says in one line what was wrong and what can be done.
func message(why rest.Failure) string {
	text := why.Reason
	if why.Field != "" {
		text = why.Field + ": " + text
	}
	if why.Remedy != "" {
		text += " (" + why.Remedy + ")"
	}
	return text
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text) // a reader that is gone is nobody's error
}
