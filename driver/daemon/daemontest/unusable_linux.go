package daemontest

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

// Unusable is a daemon that cannot be used, and what its driver has to say of it.
type Unusable = struct{ Address, Reason, Remedy string }

// CannotBeUsed holds a driver to it that every failure is told within two seconds, if there
// is no more time, with what is known of its mending.
func CannotBeUsed(t *testing.T, new func(dir, address string) sandbox.Driver, daemons map[string]Unusable) {
	for name, d := range daemons {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, new(t.TempDir(), d.Address), d)
		})
	}
}

func check(t *testing.T, driver sandbox.Driver, d Unusable) {
	inTime(t, "probe", func(ctx context.Context) error {
		report := driver.Probe(ctx)
		if report.Usable || report.Reason == "" || !strings.Contains(report.Reason, d.Reason) || !strings.Contains(report.Remedy, d.Remedy) {
			return fmt.Errorf("%+v", report)
		}
		return nil
	})
	inTime(t, "create", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, soon)
		defer cancel()
		if _, err := driver.Create(ctx, sandbox.Spec{}); sandbox.ClassOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(), d.Reason) {
			return fmt.Errorf("of class %v: %w", sandbox.ClassOf(err), err)
		}
		return nil
	})
	if n, err := driver.(sandbox.Reaper).Reap(t.Context()); n != 0 || err != nil {
		t.Errorf("reap, with nothing left: %d, %v", n, err)
	}
	if err := driver.(sandbox.Closer).Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
}

const soon = 2 * time.Second

// inTime wants something to do as it should within two seconds. It is tried again: a host may
// be at something else for longer than that.
func inTime(t *testing.T, what string, do func(context.Context) error) {
	t.Helper()
	for tries := 10; ; tries-- {
		began := time.Now()
		err := do(t.Context())
		took := time.Since(began)
		if err == nil && took <= soon {
			return
		}
		if tries == 1 {
			t.Errorf("%s: after %v: %v", what, took, err)
			return
		}
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
