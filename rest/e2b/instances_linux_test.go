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

// TestPortOfAnotherInstance: a request to a port is not sent by a connection that was kept
// from before the sandbox was paused.
func TestPortOfAnotherInstance(t *testing.T) {
	e := newSucceeded(t, 2)
	d, err := New(Options{Engine: e, Key: make([]byte, keyBytes)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	server, err := rest.New(rest.Options{Engine: e, Dialects: []rest.Dialect{d}})
	if err != nil {
		t.Fatal(err)
	}
	door := httptest.NewServer(server)
	defer door.Close()
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) }))
	defer inside.Close()
	_, port, err := net.SplitHostPort(inside.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]int{} // which a busy host does not always keep
	for _, e.instance = range []int{0, 0, 1, 1} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, door.URL, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(idHeader, anID)
		req.Header.Set(portHeader, port)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, string(text), err)
		}
		if was, known := by[string(text)]; known && was != e.instance {
			t.Errorf("instance %d is asked by a connection to instance %d", e.instance, was)
		}
		by[string(text)] = e.instance
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
