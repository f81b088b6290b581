package rest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// failing is an engine that fails as it is told to.
type failing struct {
	*cellEngine
	with func() error
}

func (f failing) Get(context.Context, engine.Caller, string) (engine.Sandbox, error) {
	return engine.Sandbox{}, f.with()
}

// lockedLog is a log that many write to.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestDefects: what nobody has classed is told to the log and to operators; a tenant
// learns nothing of the host by it. A panic ends one request.
func TestDefects(t *testing.T) {
	log := &lockedLog{}
	fail := func() error { return errors.New("open /var/lib/secret: no such file") }
	server, err := rest.New(rest.Options{Engine: failing{newCellEngine(t), func() error { return fail() }}, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Keys: keyring{annsKey: {Tenant: "ann", Name: "ann-1"}, operatorKey: {Operator: true, Name: "ops-1"}}})
	if err != nil {
		t.Fatal(err)
	}
	d := &door{Server: server}
	t.Cleanup(func() { d.close(t) })
	l, err := rest.ListenTCP(t.Context(), "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	d.http = "http://" + d.serve(t, l)
	if got := d.send(t, "GET", "/v1/sandboxes/s1", annsKey, ""); got.status != 500 || strings.Contains(got.body, "secret") {
		t.Errorf("a tenant is told %+v", got)
	}
	if got := d.send(t, "GET", "/v1/sandboxes/s1", operatorKey, ""); got.status != 500 || !strings.Contains(got.body, "secret") {
		t.Errorf("an operator is told %+v", got)
	}
	if !strings.Contains(log.String(), "secret") {
		t.Errorf("the log has %s", log)
	}
	fail = func() error { panic("defect") }
	req, err := http.NewRequestWithContext(t.Context(), "GET", d.http+"/v1/sandboxes/s1", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", annsKey)
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
		t.Errorf("a panic answers %v", res)
	}
	if !strings.Contains(log.String(), "defect") {
		t.Errorf("the log has %s", log)
	}
	if got := d.send(t, "GET", "/health", "", ""); got.status != 204 {
		t.Errorf("afterwards: %+v", got)
	}
}

// TestEveryClassComesBack: the client gives the error that the engine gave.
func TestEveryClassComesBack(t *testing.T) {
	var fail error
	d := openTo(t, failing{newCellEngine(t), func() error { return fail }}, rest.Limits{})
	c := d.local(t)
	for class := sandbox.Internal; class <= sandbox.Timeout; class++ {
		fail = &sandbox.Error{Class: class, Op: "op", Field: "field", Reason: "reason", Remedy: "remedy", Retry: true, After: 1500e6, Err: errors.New("cause")}
		_, err := c.Get(t.Context(), "s1")
		e := wantClass(t, err, class)
		if e.Field != "field" || e.Remedy != "remedy" || !e.Retry || e.After != 1500e6 || !strings.Contains(e.Error(), "reason: cause") {
			t.Errorf("%v comes back as %+v", fail, e)
		}
	}
}

// slow is an engine whose creations take until they are let go.
type slow struct {
	*cellEngine
	begun, done chan struct{}
}

func (s slow) Create(ctx context.Context, who engine.Caller, req engine.CreateRequest) (engine.Sandbox, error) {
	s.begun <- struct{}{}
	<-s.done
	return s.cellEngine.Create(ctx, who, req)
}

// TestCreationsAreBounded: one more than may be under way at once is told to wait.
func TestCreationsAreBounded(t *testing.T) {
	e := slow{newCellEngine(t), make(chan struct{}), make(chan struct{})}
	d := openTo(t, e, rest.Limits{Creations: 2})
	c := d.client(t, d.http, annsKey)
	made := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := c.Create(context.Background(), engine.CreateRequest{})
			made <- err
		}()
		<-e.begun
	}
	_, err := c.Create(t.Context(), engine.CreateRequest{})
	if got := wantClass(t, err, sandbox.Exhausted); !got.Retry || got.After <= 0 {
		t.Errorf("%+v", got)
	}
	close(e.done)
	for range 2 {
		if err := <-made; err != nil {
			t.Error(err)
		}
	}
	eventually(t, func() bool { return len(d.audited()) == 3 })
	created := slices.DeleteFunc(d.audited(), func(c rest.Call) bool { return c.Status != 201 || c.Sandbox == "" || c.Who.Tenant != "ann" })
	if len(created) != 2 {
		t.Errorf("the audit trail has %+v", d.audited())
	}
}

// TestCreationOutlastsItsBody: the time for a body that is absent bounds nothing else.
func TestCreationOutlastsItsBody(t *testing.T) {
	longer(t, 100*time.Millisecond, func(t *testing.T, within time.Duration) error {
		e := slow{newCellEngine(t), make(chan struct{}, 1), make(chan struct{})}
		d := openTo(t, e, rest.Limits{Receive: within})
		over := make(chan struct{})
		defer close(over)
		go func() {
			select {
			case <-e.begun:
				time.Sleep(3 * within)
			case <-over: // it never began
			}
			close(e.done)
		}()
		got, err := d.trySend(t, "POST", "/v1/sandboxes", annsKey, "")
		if err != nil || got.status != 201 {
			return fmt.Errorf("%+v, %v", got, err)
		}
		return nil
	})
}

// TestMetrics: requests are counted by what they asked for and how they were answered.
func TestMetrics(t *testing.T) {
	d := open(t, rest.Limits{})
	for range 3 {
		d.send(t, "GET", "/v1/sandboxes/s1", annsKey, "")
	}
	eventually(t, func() bool {
		return strings.Contains(d.send(t, "GET", "/metrics", operatorKey, "").body, `operation="sandbox.get",code="404"} 3`)
	})
	got := d.send(t, "GET", "/metrics", operatorKey, "").body
	for _, want := range []string{
		`aether_http_requests_total{operation="sandbox.get",code="404"} 3`, `aether_http_request_seconds_count{operation="sandbox.get"} 3`,
		`aether_http_request_seconds_bucket{operation="sandbox.get",le="+Inf"} 3`, "# TYPE aether_http_streams gauge", "aether_http_creations 0", "go_goroutines ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// TestDescriptionIsServed to whoever asks.
func TestDescriptionIsServed(t *testing.T) {
	d := open(t, rest.Limits{})
	if got := d.send(t, "GET", "/v1/openapi.json", "", ""); got.status != 200 || !strings.Contains(got.body, `"openapi":"3.1.0"`) && !strings.Contains(got.body, `"openapi": "3.1.0"`) {
		t.Errorf("%d %.100s", got.status, got.body)
	}
}

// TestOtherDoors: they are on the same listeners and find out who calls in the same way.
func TestOtherDoors(t *testing.T) {
	var server *rest.Server
	other := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := server.Caller(r)
		if err != nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.Write([]byte(who.Name))
	})
	server, err := rest.New(rest.Options{Engine: newCellEngine(t), Keys: keyring{annsKey: {Tenant: "ann", Name: "ann-1"}}, Doors: map[string]http.Handler{"/": other}})
	if err != nil {
		t.Fatal(err)
	}
	d := &door{Server: server}
	t.Cleanup(func() { d.close(t) })
	l, err := rest.ListenTCP(t.Context(), "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	d.http = "http://" + d.serve(t, l)
	if got := d.send(t, "GET", "/sandboxes", annsKey, ""); got.body != "ann-1" {
		t.Errorf("%+v", got)
	}
	if res, err := http.Get(d.http + "/sandboxes"); err != nil || res.StatusCode != http.StatusTeapot {
		t.Errorf("%v, %v", res, err)
	}
	if got := d.send(t, "GET", "/v1/nothing", annsKey, ""); got.status != 404 {
		t.Errorf("%+v", got)
	}
}
