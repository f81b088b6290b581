package e2b

import (
	"context"
	"html"
	"net"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/rest"
	"aether/sandbox"
)

const (
	guestPort = 49983
	codePort  = 49999

	idHeader      = "E2b-Sandbox-Id"
	portHeader    = "E2b-Sandbox-Port"
	accessHeader  = "X-Access-Token"
	trafficHeader = "E2b-Traffic-Access-Token"
)

// hostLabel is the first part of the host of a port, with or without a client's id.
var hostLabel = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]{1,5})-([0-9a-z]{1,64})(?:-[0-9a-z]{1,16})?$`)
})

// place is a port of a sandbox that a request is for.
type place struct {
	id   string
	port int
}

// Direct implements rest.Dialect.
func (d *Dialect) Direct(r *http.Request) *rest.Operation {
	at, ok := d.placeOf(r)
	switch {
	case ok && at.port == guestPort:
		return d.guestOperation(r, at)
	case ok:
		return d.portOperation(at)
	case r.URL.Path == "/files" && r.URL.Query().Has("signature"):
		return d.guestOperation(r, place{})
	}
	return nil
}

// placeOf reads what a request is for. A host or header that is malformed names no sandbox.
func (d *Dialect) placeOf(r *http.Request) (place, bool) {
	if id := r.Header.Get(idHeader); id != "" {
		port, err := strconv.Atoi(r.Header.Get(portHeader))
		if err != nil || port < 1 || port > 65535 {
			return place{id: id}, true
		}
		return place{id, port}, true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	label, domain, found := strings.Cut(strings.ToLower(host), ".")
	parts := hostLabel().FindStringSubmatch(label)
	if !found || parts == nil || d.domain != "" && !strings.EqualFold(domain, d.domain) {
		return place{}, false
	}
	port, err := strconv.Atoi(parts[1])
	if err != nil || port < 1 || port > 65535 {
		port = 0
	}
	return place{parts[2], port}, true
}

// operator is the dialect itself, which finds sandboxes before it is known who asks.
var operator = engine.Caller{Operator: true, Name: "e2b"}

// holder is who has proved that a sandbox is theirs to use.
func holder(s engine.Sandbox) engine.Caller {
	return engine.Caller{Tenant: s.Tenant, Name: "sandbox:" + s.ID}
}

// guestPaths are what clients ask a guest service for. The rest of it is the daemon's own.
var guestPaths = map[string]bool{"/health": true, "/metrics": true, "/envs": true, "/files": true}

// isGuestPath takes a path as it is written: what is read in another way is none.
func isGuestPath(name string) bool {
	if path.Clean(name) != name {
		return false
	}
	return guestPaths[name] || strings.HasPrefix(name, "/process.Process/") || strings.HasPrefix(name, "/filesystem.Filesystem/")
}

// guestOperation is a request to the guest service of a sandbox, which a signature may name.
func (d *Dialect) guestOperation(r *http.Request, at place) *rest.Operation {
	op := &rest.Operation{Name: "e2b.guest", Lasts: true}
	var env map[string]string
	op.Who = func(r *http.Request) (engine.Caller, error) {
		s, err := d.permitGuest(r, at.id)
		at.id, env = s.ID, envOf(s.Spec)
		return holder(s), err
	}
	op.Do = func(v *rest.Visit) error {
		v.About(at.id)
		if !isGuestPath(v.URL.Path) {
			return rest.Refusal(http.StatusNotFound, &sandbox.Error{Class: sandbox.NotFound, Field: "path", Reason: "there is no such path"})
		}
		v.Request.Header.Del(accessHeader)
		guest.SetMakeParents(v.Request.Header) // as E2B's service does, which is root
		if err := guest.SetEnv(v.Request.Header, env); err != nil {
			return err
		}
		return v.Guest(at.id, strings.TrimPrefix(v.URL.Path, "/"))
	}
	op.Refuse = func(w http.ResponseWriter, r *http.Request, status int, why rest.Failure) {
		refuseDirect(w, r, at, status, why)
	}
	return op
}

// permitGuest checks the token for a guest service, or the signature of one file. Whether
// it is there may be asked by anybody who knows its id.
func (d *Dialect) permitGuest(r *http.Request, id string) (engine.Sandbox, error) {
	if id == "" {
		return d.signedBy(r)
	}
	s, err := d.living(r.Context(), operator, id)
	if err != nil {
		return engine.Sandbox{ID: id}, err
	}
	shown := r.Header.Get(accessHeader)
	switch {
	case r.URL.Path == "/health":
		return s, nil
	case shown == "" && r.URL.Path == "/files":
		return s, checkSignature(r, d.tokens.access(s.ID))
	case !same(shown, d.tokens.access(s.ID)):
		return s, unauthenticated("the access token is missing or wrong")
	}
	return s, nil
}

func unauthenticated(reason string) error {
	return rest.Refusal(http.StatusUnauthorized, &sandbox.Error{Class: sandbox.Denied, Reason: reason})
}

// checkSignature checks the signature of a request for a file. Errors: Denied.
func checkSignature(r *http.Request, token string) error {
	query := r.URL.Query()
	var expiry int64
	if text := query.Get("signature_expiration"); text != "" {
		var err error
		if expiry, err = strconv.ParseInt(text, 10, 64); err != nil || expiry == 0 {
			return unauthenticated("signature_expiration is not a time")
		}
	}
	operation := "read"
	if r.Method == http.MethodPost {
		operation = "write"
	}
	switch {
	case !query.Has("signature"):
		return unauthenticated("neither an access token nor a signature is given")
	case !same(query.Get("signature"), guest.Sign(query.Get("path"), operation, query.Get("username"), token, expiry)):
		return unauthenticated("the signature is wrong")
	case expiry != 0 && expiry < time.Now().Unix():
		return unauthenticated("the signature has expired")
	}
	return nil
}

// signedBy finds the sandbox with whose token a request was signed: clients that are told
// one address for all sandboxes do not say which they mean.
func (d *Dialect) signedBy(r *http.Request) (engine.Sandbox, error) {
	q := engine.Query{States: []engine.State{engine.Running, engine.Paused}}
	for {
		page, err := d.engine.List(r.Context(), operator, q)
		if err != nil {
			return engine.Sandbox{}, err
		}
		for _, s := range page.Sandboxes {
			if checkSignature(r, d.tokens.access(s.ID)) == nil {
				return s, nil
			}
		}
		if q.After = page.Next; q.After == "" {
			return engine.Sandbox{}, unauthenticated("the signature is of no sandbox that runs, or has expired")
		}
	}
}

// permitPort checks the token for ports, unless those of the sandbox are public. A sandbox
// that is paused is not woken by who may not use it.
func (d *Dialect) permitPort(ctx context.Context, r *http.Request, id string) (engine.Sandbox, error) {
	s, err := d.living(ctx, operator, id)
	if err != nil {
		return engine.Sandbox{ID: id}, err
	}
	if isPrivate(s) && !same(r.Header.Get(trafficHeader), d.tokens.traffic(s.ID)) {
		return s, &sandbox.Error{Class: sandbox.Denied, Reason: "the ports of this sandbox ask for its token in the header " + trafficHeader}
	}
	return s, nil
}

// directFailure is what callers of something inside a sandbox are told.
type directFailure struct {
	SandboxID string `json:"sandboxId,omitempty"`
	Message   string `json:"message"`
	Code      int    `json:"code"`
	Port      int    `json:"port,omitempty"`
}

// refuseDirect tells of a sandbox that is gone, or stands still, as proxies tell of a
// server that is down: by that clients know it.
func refuseDirect(w http.ResponseWriter, r *http.Request, at place, status int, why rest.Failure) {
	body := directFailure{at.id, message(why), status, 0}
	switch why.Class {
	case sandbox.NotFound.String():
		if status == http.StatusNotFound && why.Field != "path" {
			body.Code, body.Message = http.StatusBadGateway, "The sandbox was not found"
		}
	case sandbox.Conflict.String():
		body.Code = http.StatusBadGateway
	case sandbox.Unavailable.String():
		if at.port != guestPort && status == http.StatusServiceUnavailable {
			body.Code, body.Port, body.Message = http.StatusBadGateway, at.port, "The sandbox is running but nothing listens at the port"
		}
	}
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		writePage(w, body)
		return
	}
	writeJSON(w, body.Code, body)
}

// writePage is a refusal for people with a browser.
func writePage(w http.ResponseWriter, f directFailure) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(f.Code)
	_, _ = w.Write([]byte("<!doctype html><title>" + strconv.Itoa(f.Code) + "</title><p>" + html.EscapeString(f.Message) + "</p>\n")) // a reader that is gone is nobody's error
}
