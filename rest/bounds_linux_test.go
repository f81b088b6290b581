package rest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
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
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestHalfOpen: whoever does not finish what it began, or begins nothing, is let go.
func TestHalfOpen(t *testing.T) {
	for name, c := range map[string]struct{ said, answer string }{
		"silent":      {"", ""},
		"half header": {"GET /v1/sandboxes HT", ""},
		"idle":        {"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", "204"},
		"half body":   {"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-Key: " + annsKey + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", "408"},
	} {
		longer(t, 300*time.Millisecond, func(t *testing.T, within time.Duration) error {
			d := open(t, rest.Limits{Receive: within, Idle: within})
			conn := d.dial(t)
			io.WriteString(conn, c.said)
			text, err := io.ReadAll(conn)
			if err != nil || !strings.Contains(string(text), c.answer) { // what was said may have come too late, when it is reset
				return fmt.Errorf("%s: %s, %v", name, text, err)
			}
			return nil
		})
	}
}

// TestBoundsOfTimeEnd: the time for a body ends with the body, whatever it has asked for
// takes longer, and the time to read an answer does not count for the next one.
func TestBoundsOfTimeEnd(t *testing.T) { longer(t, 300*time.Millisecond, boundsOfTimeEnd) }

func boundsOfTimeEnd(t *testing.T, within time.Duration) error {
	d := open(t, rest.Limits{Receive: within, Stall: within})
	made, err := d.client(t, d.http, annsKey).Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		return err
	}
	conn := d.dial(t)
	answers := bufio.NewReader(conn)
	body := fmt.Sprintf(`{"command":["sleep","%.1f"]}`, 2*within.Seconds())
	for range 2 {
		fmt.Fprintf(conn, "POST /v1/sandboxes/%s/exec HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", made.ID, annsKey, len(body))
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			return fmt.Errorf("%q, %v", line, err)
		}
		answers.ReadString('\n')
		io.WriteString(conn, body)
		res, err := http.ReadResponse(answers, nil)
		if err != nil || res.StatusCode != 200 {
			return fmt.Errorf("%v, %v", res, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return err
		}
		time.Sleep(within * 4 / 3)
	}
	return nil
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
	third.SetReadDeadline(time.Now().Add(patience))
	if text, err := io.ReadAll(third); err != nil || !strings.Contains(string(text), "204") {
		t.Errorf("%q, %v", text, err)
	}
}

// TestRate: a key that is used too often is told when to come again, and others are not.
func TestRate(t *testing.T) {
	const interval = 10 * time.Minute
	d := open(t, rest.Limits{Rate: 1 / interval.Seconds(), Burst: 3})
	for i := range 3 {
		if got := d.send(t, "GET", "/v1/sandboxes", annsKey, ""); got.status != 200 {
			t.Fatalf("%d: %+v", i, got)
		}
	}
	got := d.send(t, "GET", "/v1/sandboxes", annsKey, "")
	after, err := strconv.Atoi(got.header.Get("Retry-After"))
	if got.status != 429 || err != nil || !strings.Contains(got.body, `"retry":true`) {
		t.Errorf("%+v", got)
	}
	var told rest.Failure
	if err := json.Unmarshal([]byte(got.body), &told); err != nil {
		t.Fatal(err)
	}
	if wait := told.AfterMS; wait > interval.Milliseconds() || wait < interval.Milliseconds()/2 || int64(after) != (wait+999)/1000 {
		t.Errorf("it is told to wait for %d s, and %s", after, got.body)
	}
	_, err = d.client(t, d.http, annsKey).List(t.Context(), engine.Query{})
	if e := wantClass(t, err, sandbox.Exhausted); e.After <= 0 || e.After > interval || !e.Retry {
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

// patience is how long what must happen is waited for, also on a host that is slow: who
// waits for it that long has found a defect.
const patience = 2 * time.Minute

func eventually(t testing.TB, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come to pass")
		}
	}
}

// longer has do tried with longer bounds of time, until the host is fast enough to keep one
// of them: its error says that it was not. What fails for another reason fails with the last.
func longer(t *testing.T, first time.Duration, do func(t *testing.T, within time.Duration) error) {
	t.Helper()
	var err error
	for _, times := range []time.Duration{1, 10, 100} {
		if err = do(t, times*first); err == nil {
			return
		}
		t.Logf("within %v: %v", times*first, err)
	}
	t.Error(err)
}
