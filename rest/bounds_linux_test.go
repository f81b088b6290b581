package rest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// TestMalformed: each is refused with the field at fault, and nothing is made.
func TestMalformed(t *testing.T) {
	d := open(t, rest.Limits{BodyBytes: 4096})
	for body, want := range map[string]struct {
		status int
		field  string
	}{
		`{"spec":`:                        {400, "body"},
		`{}{}`:                            {400, "body"},
		`[]`:                              {400, "body"},
		`"x"`:                             {400, "body"},
		`{"timeout_ns":"soon"}`:           {400, "timeout_ns"},
		`{"spec":{"limits":{"cpus":""}}}`: {400, "spec.limits.cpus"},
		`{"spec":{"isolation":"glass"}}`:  {400, "isolation"},
		`{"sped":{}}`:                     {400, "sped"},
		`{"key":"smuggled"}`:              {400, "key"},
		`{"driver":"vz"}`:                 {400, "driver"},
		"\x00\xff":                        {400, "body"},
		strings.Repeat(`[`, 4000):         {400, "body"},
		`{"driver":"` + strings.Repeat("x", 5000) + `"}`: {413, "body"},
	} {
		got := d.send(t, "POST", "/v1/sandboxes", annsKey, body)
		if got.status != want.status || !strings.Contains(got.body, `"field":"`+want.field+`"`) || got.header.Get("Aether-Error") != "invalid" {
			t.Errorf("%.60q: %+v", body, got)
		}
	}
	for path, want := range map[string]int{
		"/v1/sandboxes?limit=0": 400, "/v1/sandboxes?limit=1&limit=2": 400, "/v1/sandboxes?colour=red": 400, "/v1/sandboxes?state=odd": 400,
		"/v1/sandboxes?metadata=x": 400, "/v1/sandboxes?a=%zz": 400, "/v1/events?after=x": 400, "/v1/nothing": 404, "/v1/sandboxes?" + strings.Repeat("state=running&", 70): 400,
	} {
		if got := d.send(t, "GET", path, annsKey, ""); got.status != want {
			t.Errorf("%.60s: %+v", path, got)
		}
	}
	if got := d.send(t, "PUT", "/v1/sandboxes", annsKey, ""); got.status != 405 || got.header.Get("Allow") != "POST, GET" {
		t.Errorf("PUT: %+v", got)
	}
	if got := d.send(t, "PATCH", "/v1/sandboxes/s1", annsKey, "{}"); got.status != 400 {
		t.Errorf("a change of nothing: %+v", got)
	}
	if n := len(d.engine.boxes); n != 0 {
		t.Errorf("%d sandboxes were made", n)
	}
	eventually(t, func() bool { return len(d.audited()) == 24 })
	for _, call := range d.audited() {
		if call.Err == nil || call.Who.Name != "ann-1" {
			t.Errorf("the audit trail has %+v", call)
		}
	}
}

func TestHeadersAreBounded(t *testing.T) {
	d := open(t, rest.Limits{})
	conn := d.dial(t)
	fmt.Fprintf(conn, "GET /health HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("x", 100<<10))
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "431") {
		t.Errorf("%q, %v", line, err)
	}
}

func (d *door) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.http, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestHalfOpen: whoever does not finish what it began, or begins nothing, is let go.
func TestHalfOpen(t *testing.T) {
	d := open(t, rest.Limits{Receive: 300 * time.Millisecond, Idle: 300 * time.Millisecond})
	for name, said := range map[string]string{
		"silent":      "",
		"half header": "GET /v1/sandboxes HT",
		"idle":        "GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
		"half body":   "POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-Key: " + annsKey + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
	} {
		conn := d.dial(t)
		io.WriteString(conn, said)
		started := time.Now()
		text, err := io.ReadAll(conn)
		if err != nil || time.Since(started) > 10*time.Second {
			t.Errorf("%s: %v after %v", name, err, time.Since(started))
		}
		if name == "half body" && !strings.Contains(string(text), "408") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestBoundsOfTimeEnd: the time for a body ends with the body, whatever it has asked for
// takes longer, and the time to read an answer does not count for the next one.
func TestBoundsOfTimeEnd(t *testing.T) {
	d := open(t, rest.Limits{Receive: 300 * time.Millisecond, Stall: 300 * time.Millisecond})
	made, err := d.client(t, d.http, annsKey).Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	conn := d.dial(t)
	answers := bufio.NewReader(conn)
	const body = `{"command":["sleep","0.7"]}`
	for range 2 {
		fmt.Fprintf(conn, "POST /v1/sandboxes/%s/exec HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", made.ID, annsKey, len(body))
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatalf("%q, %v", line, err)
		}
		answers.ReadString('\n')
		io.WriteString(conn, body)
		res, err := http.ReadResponse(answers, nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// TestConnectionsAreBounded: the next one waits for one to be closed, on its own listener.
func TestConnectionsAreBounded(t *testing.T) {
	d := open(t, rest.Limits{Connections: 2})
	first, second := d.dial(t), d.dial(t)
	_ = second
	third := d.dial(t)
	io.WriteString(third, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	third.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if n, err := third.Read(make([]byte, 1)); err == nil {
		t.Fatalf("%d bytes are answered beyond the bound", n)
	}
	if err := d.local(t).Ready(t.Context()); err != nil {
		t.Errorf("the socket is held up: %v", err)
	}
	first.Close()
	third.SetReadDeadline(time.Now().Add(10 * time.Second))
	if text, err := io.ReadAll(third); err != nil || !strings.Contains(string(text), "204") {
		t.Errorf("%q, %v", text, err)
	}
}

// TestRate: a key that is used too often is told when to come again, and others are not.
func TestRate(t *testing.T) {
	d := open(t, rest.Limits{Rate: 0.5, Burst: 3})
	for i := range 3 {
		if got := d.send(t, "GET", "/v1/sandboxes", annsKey, ""); got.status != 200 {
			t.Fatalf("%d: %+v", i, got)
		}
	}
	got := d.send(t, "GET", "/v1/sandboxes", annsKey, "")
	if got.status != 429 || got.header.Get("Retry-After") != "2" || !strings.Contains(got.body, `"retry":true`) || !strings.Contains(got.body, "retry_after_ms") {
		t.Errorf("%+v", got)
	}
	_, err := d.client(t, d.http, annsKey).List(t.Context(), engine.Query{})
	if e := wantClass(t, err, sandbox.Exhausted); e.After <= 0 || e.After > 2*time.Second || !e.Retry {
		t.Errorf("%+v", e)
	}
	if got := d.send(t, "GET", "/v1/sandboxes", bobsKey, ""); got.status != 200 {
		t.Errorf("another key: %+v", got)
	}
}

// TestStreamsAreBounded: each caller has its own bound, and what ends makes room.
func TestStreamsAreBounded(t *testing.T) {
	d := open(t, rest.Limits{CallerStreams: 2})
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		req, err := http.NewRequestWithContext(ctx, "GET", d.http+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-Key", annsKey)
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
		defer res.Body.Close()
	}
	if got := d.send(t, "GET", "/v1/events", annsKey, ""); got.status != 429 {
		t.Errorf("%+v", got)
	}
	if got := d.send(t, "GET", "/v1/sandboxes/s1/guest/health", bobsKey, ""); got.status != 404 {
		t.Errorf("another caller: %+v", got)
	}
	cancel()
	eventually(t, func() bool { return d.send(t, "GET", "/v1/sandboxes/s1/guest/health", annsKey, "").status == 404 })
}

func eventually(t testing.TB, holds func() bool) {
	t.Helper()
	for range 500 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it does not come to pass")
}
