package incus_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/driver/daemon/daemontest"
	"aether/driver/incus"
	"aether/image"
	"aether/sandbox"
)

func at(dir, socket string) sandbox.Driver {
	return incus.New(incus.Options{RunDir: dir, Socket: socket, Images: noImages})
}

func TestDaemonThatCannotBeUsed(t *testing.T) {
	daemontest.CannotBeUsed(t, at, map[string]daemontest.Unusable{
		"missing":        {daemontest.Missing(t), "does not exist", "install the package incus"},
		"down":           {daemontest.Dead(t), "nobody listens", "start it"},
		"hanging":        {daemontest.Silent(t), "does not answer", "restart it"},
		"half an answer": {saying(t, 200, `{"type":"sync",`), "cannot be used", ""},
		"no JSON":        {saying(t, 200, "<html>"), "cannot be used", ""},
		"another shape":  {saying(t, 200, `[]`), "cannot be used", ""},
		"another type":   {saying(t, 200, `{"type":"other","metadata":{}}`), "cannot be used", ""},
		"no metadata":    {saying(t, 200, `{"type":"sync"}`), "cannot be used", ""},
		"wrong metadata": {saying(t, 200, `{"type":"sync","metadata":{"auth":7}}`), "cannot be used", ""},
		"an operation":   {saying(t, 202, `{"type":"async","operation":"/1.0/operations/x","metadata":{}}`), "cannot be used", ""},
		"an error":       {saying(t, 500, `{"type":"error","error":"it broke","error_code":500}`), "cannot be used", ""},
		"another's word": {saying(t, 404, "404 page not found"), "cannot be used", ""},
		"redirection":    {saying(t, 302, `{"type":"sync","metadata":{"auth":"untrusted"}}`), "does not trust", "root"},
		"endless":        {endless(t), "", ""},
		"no trust":       {saying(t, 200, `{"type":"sync","metadata":{"auth":"untrusted"}}`), "does not trust", "incus-admin"},
		"a cluster":      {saying(t, 200, `{"type":"sync","metadata":{"auth":"trusted","environment":{"driver":"lxc","server_clustered":true}}}`), "cluster", "alone"},
		"no containers":  {saying(t, 200, `{"type":"sync","metadata":{"auth":"trusted","environment":{"driver":"qemu"}}}`), "no containers", "LXC"},
	})
}

// TestDaemonThatIsDownIsNotForgotten: those who left something are told that it
// cannot be removed now.
func TestDaemonThatIsDownIsNotForgotten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dead.owner"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	driver := at(dir, daemontest.Dead(t)).(sandbox.Reaper)
	if _, err := driver.Reap(t.Context()); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("reap: %v", err)
	}
}

func noImages() (*image.Store, error) { return nil, os.ErrInvalid }

// saying is a socket where every request has one answer.
func saying(t *testing.T, status int, text string) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/1.0/elsewhere")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
}

// endless is a socket whose answer has no end.
func endless(t *testing.T) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for line := []byte(strings.Repeat(" ", 1<<20)); ; {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	})
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	listener := daemontest.Listen(t)
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}
