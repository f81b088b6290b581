package vmmtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"aether/driver/vmm"
)

// exchange is a request as a monitor's API documents it, and the answer to it.
type exchange struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body,omitempty"`
	Status int             `json:"status"`
	Answer json.RawMessage `json:"answer,omitempty"`
}

// Replay serves the exchanges in a file over a unix socket, once and in their
// order, and fails the test for every request that is not the next one: in its
// method, its path or a byte of its body.
func Replay(t *testing.T, files fs.FS, file string) vmm.Dial {
	t.Helper()
	text, err := fs.ReadFile(files, file)
	if err != nil {
		t.Fatal(err)
	}
	var list []exchange
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	r := &replay{t: t, rest: list}
	t.Cleanup(r.done)
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	listener := listen(t)
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return dialer(listener)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), vmm.Socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

func dialer(to net.Listener) vmm.Dial {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", to.Addr().String())
	}
}

type replay struct {
	t    *testing.T
	mu   sync.Mutex
	rest []exchange
}

func (r *replay) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.rest {
		r.t.Errorf("%s %s was not sent", e.Method, e.Path)
	}
}

// ServeHTTP implements http.Handler.
func (r *replay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := io.ReadAll(req.Body)
	got := fmt.Sprintf("%s %s %s", req.Method, req.URL.Path, body)
	if err != nil || len(r.rest) == 0 {
		r.t.Errorf("%s was sent after the end (%v)", got, err)
		http.Error(w, "not in the replay", http.StatusTeapot)
		return
	}
	next := r.rest[0]
	r.rest = r.rest[1:]
	if want := fmt.Sprintf("%s %s %s", next.Method, next.Path, compact(r.t, next.Body)); got != want {
		r.t.Errorf("sent %s\nwant %s", got, want)
	}
	if len(body) > 0 && req.Header.Get("Content-Type") != "application/json" {
		r.t.Errorf("%s: its type is %q", got, req.Header.Get("Content-Type"))
	}
	w.WriteHeader(next.Status)
	_, _ = w.Write(compact(r.t, next.Answer)) // the client says if it failed
}

func compact(t *testing.T, text json.RawMessage) []byte {
	if len(text) == 0 {
		return nil
	}
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		t.Error(err)
	}
	return out.Bytes()
}
