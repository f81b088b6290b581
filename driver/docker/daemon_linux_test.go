package docker_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/driver/docker"
	"aether/image"
	"aether/sandbox"
)

// TestDaemonThatCannotBeUsed: every failure is told within two seconds, with what
// mends it.
func TestDaemonThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct{ host, reason, remedy string }{
		"missing":    {"unix://" + filepath.Join(t.TempDir(), "none"), "does not exist", "docker.io"},
		"down":       {deadSocket(t), "nobody listens", "start it"},
		"hanging":    {silentSocket(t), "does not answer", "restart it"},
		"elsewhere":  {"tcp://127.0.0.1:1", "not a socket of this host", "DOCKER_HOST"},
		"no address": {"unix://", "not a socket of this host", "DOCKER_HOST"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver := docker.New(docker.Options{RunDir: t.TempDir(), Host: c.host, Images: noImages})
			began := time.Now()
			report := driver.Probe(t.Context())
			soon(t, began)
			if report.Usable || !strings.Contains(report.Reason, c.reason) || !strings.Contains(report.Remedy, c.remedy) {
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
	return "unix://" + listener.Addr().String()
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
	return "unix://" + listener.Addr().String()
}

func listen(t *testing.T) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func TestUnknownRuntime(t *testing.T) {
	needDaemon(t)
	driver := docker.New(docker.Options{RunDir: t.TempDir(), Runtime: "no-such", Images: noImages})
	report := driver.Probe(t.Context())
	if report.Usable || !strings.Contains(report.Reason, "no-such") || report.Version == "" {
		t.Errorf("%+v", report)
	}
	if _, err := driver.Create(t.Context(), sandbox.Spec{}); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("create: %v", err)
	}
}
