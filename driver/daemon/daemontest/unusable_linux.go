package daemontest

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

// Unusable is a daemon that cannot be used, and what its driver has to say of it.
type Unusable = struct{ Address, Reason, Remedy string }

// CannotBeUsed holds a driver to it that every failure is told within two seconds,
// with what is known of its mending.
func CannotBeUsed(t *testing.T, new func(dir, address string) sandbox.Driver, daemons map[string]Unusable) {
	for name, d := range daemons {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, new(t.TempDir(), d.Address), d)
		})
	}
}

func check(t *testing.T, driver sandbox.Driver, d Unusable) {
	began := time.Now()
	report := driver.Probe(t.Context())
	soon(t, began)
	if report.Usable || report.Reason == "" || !strings.Contains(report.Reason, d.Reason) || !strings.Contains(report.Remedy, d.Remedy) {
		t.Errorf("%+v", report)
	}
	began = time.Now()
	_, err := driver.Create(t.Context(), sandbox.Spec{})
	soon(t, began)
	if sandbox.ClassOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(), d.Reason) {
		t.Errorf("create: %v", err)
	}
	if n, err := driver.(sandbox.Reaper).Reap(t.Context()); n != 0 || err != nil {
		t.Errorf("reap, with nothing left: %d, %v", n, err)
	}
	if err := driver.(sandbox.Closer).Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
}

func soon(t *testing.T, began time.Time) {
	t.Helper()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Listen makes a socket that nobody answers at.
func Listen(t *testing.T) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

// Missing is a socket that does not exist.
func Missing(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }

// Dead is the socket of a daemon that was killed.
func Dead(t *testing.T) string {
	t.Helper()
	listener := Listen(t)
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

// Silent is a socket that takes connections and never answers.
func Silent(t *testing.T) string {
	t.Helper()
	listener := Listen(t)
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
