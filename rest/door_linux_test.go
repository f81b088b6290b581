package rest_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

const (
	annsKey     = "e2b_1111111111111111111111111111111111111111"
	bobsKey     = "e2b_2222222222222222222222222222222222222222"
	operatorKey = "e2b_3333333333333333333333333333333333333333"
	expiredKey  = "e2b_4444444444444444444444444444444444444444"
)

// keyring is who has which key.
type keyring map[string]engine.Caller

func (k keyring) Authenticate(_ context.Context, key string) (engine.Caller, error) {
	who, ok := k[key]
	if !ok {
		return engine.Caller{}, &sandbox.Error{Class: sandbox.Denied, Reason: "unknown or expired"}
	}
	return who, nil
}

// door is a server that listens, and what it has said to the audit trail.
type door struct {
	*rest.Server
	engine *cellEngine
	socket string
	http   string // URL of plain TCP
	https  string
	trust  *x509.CertPool

	mu    sync.Mutex
	calls []rest.Call
}

// open opens a door on a unix socket, plain TCP and TLS, to cells.
func open(t testing.TB, limits rest.Limits) *door {
	t.Helper()
	e := newCellEngine(t)
	d := openTo(t, e, limits)
	d.engine = e
	return d
}

func openTo(t testing.TB, e rest.Engine, limits rest.Limits) *door {
	t.Helper()
	d := &door{}
	server, err := rest.New(rest.Options{Engine: e, Limits: limits, Audit: d.audit, Systems: systems,
		Keys: keyring{annsKey: {Tenant: "ann", Name: "ann-1"}, bobsKey: {Tenant: "bob", Name: "bob-1"}, operatorKey: {Tenant: "ops", Operator: true, Name: "ops-1"}}})
	if err != nil {
		t.Fatal(err)
	}
	d.Server = server
	t.Cleanup(func() { d.close(t) })
	d.listen(t)
	return d
}

func (d *door) listen(t testing.TB) {
	dir := t.TempDir()
	d.socket = filepath.Join(dir, "aether.sock")
	unix, err := rest.ListenUnix(t.Context(), d.socket)
	if err != nil {
		t.Fatal(err)
	}
	d.serve(t, unix)
	plain, err := rest.ListenTCP(t.Context(), "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	d.http = "http://" + d.serve(t, plain)
	config, public, err := rest.LocalAuthority(dir, []string{"127.0.0.1", "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	secure, err := rest.ListenTCP(t.Context(), "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	d.https = "https://" + d.serve(t, secure)
	d.trust = pool(t, public)
}

func pool(t testing.TB, file string) *x509.CertPool {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(text) {
		t.Fatalf("%s holds no certificate", file)
	}
	return p
}

func (d *door) serve(t testing.TB, l *rest.Listener) string {
	go func() {
		if err := d.Serve(l); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("serve: %v", err)
		}
	}()
	return l.Addr().String()
}

func (d *door) close(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := d.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

func (d *door) audit(c rest.Call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, c)
}

func (d *door) audited() []rest.Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]rest.Call(nil), d.calls...)
}

func systems(ctx context.Context) ([]rest.System, error) {
	info := cells.Info()
	return []rest.System{{System: info.Name, Boundary: info.Boundary, Driver: true, Verbs: &info.Verbs, Report: cells.Probe(ctx)},
		{System: "vz", Boundary: sandbox.HardwareBoundary, Report: sandbox.Report{Reason: "no driver in this build"}}}, nil
}

// client gives one of this user's, over the socket, or of somebody with a key.
func (d *door) client(t testing.TB, url, key string) *rest.Client {
	t.Helper()
	c, err := rest.NewClient(rest.ClientOptions{URL: url, Key: key, Authorities: d.trust})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (d *door) local(t testing.TB) *rest.Client { return d.client(t, "unix://"+d.socket, "") }

// reply is what came back of a request.
type reply struct {
	status int
	header http.Header
	body   string
}

// send sends a request of plain HTTP as somebody writes it by hand.
func (d *door) send(t testing.TB, method, path, key, body string, headers ...string) reply {
	t.Helper()
	got, err := d.trySend(t, method, path, key, body, headers...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return got
}

// trySend is send, of which the error is that nothing whole was answered.
func (d *door) trySend(t testing.TB, method, path, key, body string, headers ...string) (reply, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, d.http+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("X-API-Key", key)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{}, err
	}
	checkAnswer(t, method, path, res, text)
	return reply{res.StatusCode, res.Header, string(text)}, nil
}

// over gives the ways to a door, with the operator's rights on each.
func over(d *door) map[string]rest.ClientOptions {
	return map[string]rest.ClientOptions{
		"unix": {URL: "unix://" + d.socket},
		"tcp":  {URL: d.http, Key: operatorKey},
		"tls":  {URL: d.https, Key: operatorKey, Authorities: d.trust},
	}
}

func wantClass(t testing.TB, err error, want sandbox.Class) *sandbox.Error {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != want {
		t.Fatalf("it answers %v, want %v", err, want)
	}
	return e
}
