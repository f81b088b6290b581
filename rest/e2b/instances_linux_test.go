package e2b

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"aether/engine"
	"aether/guest"
	"aether/guest/local"
	"aether/interpreter"
	"aether/rest"
)

// succeeded is an engine with one sandbox, which one instance after another serves. That
// before it is still there, as one is whose end nobody has noticed yet.
type succeeded struct {
	Engine
	instance int
	inside   map[int]*guest.Client
}

func (s *succeeded) Get(context.Context, engine.Caller, string) (engine.Sandbox, error) {
	return engine.Sandbox{ID: anID, Tenant: "ann", State: engine.Running, Instance: s.instance}, nil
}

func (s *succeeded) Guest(context.Context, engine.Caller, string) (*guest.Client, func(), error) {
	return s.inside[s.instance], func() {}, nil
}

// newSucceeded has as many instances, each of which says its number in its environment.
func newSucceeded(t *testing.T, instances int) *succeeded {
	t.Helper()
	s := &succeeded{inside: map[int]*guest.Client{}}
	for n := range instances {
		backend, err := local.New("/", "")
		if err != nil {
			t.Fatal(err)
		}
		service, err := guest.New(backend, guest.Options{WorkDir: "/tmp", DefaultUser: strconv.Itoa(os.Getuid()), Env: map[string]string{"INSTANCE": strconv.Itoa(n)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := service.Close(); err != nil {
				t.Error(err)
			}
		})
		s.inside[n] = guest.NewClient(func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			return near, service.ServeConn(far)
		}, guest.ClientOptions{})
	}
	return s
}

// openDoor serves the sandbox, and gives where. Audit may be nil.
func openDoor(t *testing.T, e *succeeded, audit func(rest.Call)) (url string) {
	t.Helper()
	d, err := New(Options{Engine: e, Key: make([]byte, keyBytes)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	server, err := rest.New(rest.Options{Engine: e, Dialects: []rest.Dialect{d}, Audit: audit})
	if err != nil {
		t.Fatal(err)
	}
	door := httptest.NewServer(server)
	t.Cleanup(door.Close)
	return door.URL
}

// listen has a handler answer inside of the sandbox, and gives a request to it by the door.
func listen(t *testing.T, door string, inside http.HandlerFunc) func(method string, body io.Reader) *http.Request {
	t.Helper()
	s := httptest.NewServer(inside)
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return func(method string, body io.Reader) *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), method, door, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(idHeader, anID)
		req.Header.Set(portHeader, port)
		return req
	}
}

// TestUpgradeIsToldAsOne: a port that becomes a WebSocket has not failed.
func TestUpgradeIsToldAsOne(t *testing.T) {
	told := make(chan int, 1)
	url := openDoor(t, newSucceeded(t, 1), func(c rest.Call) { told <- c.Status })
	request := listen(t, url, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
	})
	req := request(http.MethodGet, nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != http.StatusSwitchingProtocols || string(text) != "hello" || err != nil {
		t.Errorf("%s, %q, %v", res.Status, text, err)
	}
	if status := <-told; status != http.StatusSwitchingProtocols {
		t.Errorf("the audit trail has it as %d", status)
	}
}

// TestPortOfAnotherInstance: a request to a port is not sent by a connection that was kept
// from before the sandbox was paused.
func TestPortOfAnotherInstance(t *testing.T) {
	e := newSucceeded(t, 2)
	request := listen(t, openDoor(t, e, nil), func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) })
	by, kept := map[string]int{}, false
	for n := 0; n < 4 || !kept && n < 80; n++ { // a busy host does not keep each connection
		e.instance = n / 2 % 2
		res, err := http.DefaultClient.Do(request(http.MethodPost, strings.NewReader("x")))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, string(text), err)
		}
		was, known := by[string(text)]
		if known && was != e.instance {
			t.Errorf("instance %d is asked by a connection to instance %d", e.instance, was)
		}
		by[string(text)], kept = e.instance, kept || known
	}
	if !kept {
		t.Error("no connection is kept")
	}
}

// TestContextOfAnotherInstance: code is run in the instance that serves the sandbox now.
func TestContextOfAnotherInstance(t *testing.T) {
	e := newSucceeded(t, 2)
	c := newContext("default-bash", interpreter.Bash, "/tmp")
	c.standard = true
	for _, e.instance = range []int{0, 0, 1, 1} {
		s, err := e.Get(t.Context(), operator, anID)
		if err != nil {
			t.Fatal(err)
		}
		running, err := c.live(t.Context(), e, operator, s)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := running.Run(t.Context(), "echo $INSTANCE", interpreter.Handler{}); err != nil || got.Logs.Stdout != fmt.Sprintln(e.instance) {
			t.Errorf("in instance %d: %q, %v", e.instance, got.Logs.Stdout, err)
		}
	}
	if err := c.end(t.Context(), e, operator, engine.Sandbox{ID: anID, Instance: e.instance}); err != nil {
		t.Error(err)
	}
}
