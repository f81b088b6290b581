package incus_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/driver/incus"
	"aether/image"
	"aether/sandbox"
)

// TestDaemonThatCannotBeUsed: every failure is told within two seconds, with what
// is known of its mending.
func TestDaemonThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct{ socket, reason, remedy string }{
		"missing":        {filepath.Join(t.TempDir(), "none"), "does not exist", "install the package incus"},
		"down":           {deadSocket(t), "nobody listens", "start it"},
		"hanging":        {silentSocket(t), "does not answer", "restart it"},
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver := incus.New(incus.Options{RunDir: t.TempDir(), Socket: c.socket, Images: noImages})
			began := time.Now()
			report := driver.Probe(t.Context())
			soon(t, began)
			if report.Usable || report.Reason == "" || !strings.Contains(report.Reason, c.reason) || !strings.Contains(report.Remedy, c.remedy) {
				t.Errorf("%+v", report)
			}
			began = time.Now()
			_, err := driver.Create(t.Context(), sandbox.Spec{})
			soon(t, began)
			if sandbox.ClassOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("create: %v", err)
			}
			if n, err := driver.Reap(t.Context()); n != 0 || err != nil {
				t.Errorf("reap, with nothing left: %d, %v", n, err)
			}
			if err := driver.Close(t.Context()); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// TestDaemonThatIsDownIsNotForgotten: those who left something are told that it
// cannot be removed now.
func TestDaemonThatIsDownIsNotForgotten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dead.owner"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	driver := incus.New(incus.Options{RunDir: dir, Socket: deadSocket(t), Images: noImages})
	if _, err := driver.Reap(t.Context()); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("reap: %v", err)
	}
}

func noImages() (*image.Store, error) { return nil, os.ErrInvalid }

func soon(t *testing.T, began time.Time) {
	t.Helper()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}

// deadSocket is the socket of a daemon that was killed.
func deadSocket(t *testing.T) string {
	t.Helper()
	listener := listen(t)
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

// silentSocket takes connections and never answers.
func silentSocket(t *testing.T) string {
	t.Helper()
	listener := listen(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
		}
	}()
	return listener.Addr().String()
}

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
	listener := listen(t)
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}

func listen(t *testing.T) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
