package incus_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aether/driver/command/commandtest"
	"aether/driver/daemon/daemontest"
	"aether/driver/incus"
	"aether/sandbox"
)

func sh(t *testing.T, instance sandbox.Instance, script string) string {
	t.Helper()
	out, _ := commandtest.Sh(t, instance, script)
	return out
}

func create(t *testing.T, spec sandbox.Spec) sandbox.Instance {
	t.Helper()
	daemontest.Need(t)
	return commandtest.Create(t, newDriver(t.TempDir()), spec)
}

var asRoot = sandbox.CommandDefaults{User: "root"}

func TestBoxFilter(t *testing.T) {
	commandtest.Filter(t, create(t, sandbox.Spec{}), slices.Concat(commandtest.Refused, commandtest.InPart))
}

func TestBoxWalls(t *testing.T) {
	commandtest.Walls(t, create(t, sandbox.Spec{ID: "walls", Command: asRoot}), map[string]string{
		"id -u":            "0",
		"ls -A /dev/incus": "", // the daemon's own service for containers
		"mknod /tmp/disk b 8 0 || mount -t tmpfs none /mnt || chroot / true || unshare -m true || touch /usr/bin/new || echo no": "no",
	})
}

func TestBoxWithTheLeastMemory(t *testing.T) {
	daemontest.Need(t)
	commandtest.LeastMemory(t, newDriver(t.TempDir()))
}

// TestRootIsNobodyOutside: no two sandboxes share user ids, and none has the
// host's.
func TestRootIsNobodyOutside(t *testing.T) {
	ids := map[string]bool{"0": true}
	for range 2 {
		outside := sh(t, create(t, sandbox.Spec{}), "awk '$1 == 0 { print $2 }' /proc/self/uid_map")
		if ids[outside] || outside == "" {
			t.Errorf("root is %q outside", outside)
		}
		ids[outside] = true
	}
}

// TestLinkInThePlaceOfTheSocket: root inside cannot lead this program to a socket
// of the host.
func TestLinkInThePlaceOfTheSocket(t *testing.T) {
	trap, err := net.Listen("unix", filepath.Join(t.TempDir(), "trap"))
	if err != nil {
		t.Fatal(err)
	}
	reached := make(chan struct{}, 1)
	go func() {
		for {
			conn, err := trap.Accept()
			if err != nil {
				return
			}
			conn.Close()
			reached <- struct{}{}
		}
	}()
	defer trap.Close()
	instance := create(t, sandbox.Spec{Command: asRoot})
	sh(t, instance, "cd /dev; mv .aether-socket .other; ln -s "+trap.Addr().String()+" .aether-socket")
	for range 20 {
		if conn, err := instance.Dial(t.Context()); err == nil {
			conn.Close()
			t.Error("something was reached")
		}
		time.Sleep(20 * time.Millisecond)
	}
	select {
	case <-reached:
		t.Error("a socket of the host was reached")
	default:
	}
	if err := instance.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestOddMounts: names of files are no configuration.
func TestOddMounts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b,c=d\\e#")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "f"), []byte("text"), 0o644)); err != nil {
		t.Fatal(err)
	}
	instance := create(t, sandbox.Spec{Mounts: []sandbox.Mount{{Source: dir, Target: "/mnt/x y"}}})
	if got := sh(t, instance, "cat '/mnt/x y/f'; touch '/mnt/x y/g' 2>/dev/null || echo refused"); got != "textrefused" {
		t.Errorf("%q", got)
	}
}

func TestRefusals(t *testing.T) {
	daemontest.Need(t)
	driver := newDriver(t.TempDir())
	defer driver.(sandbox.Closer).Close(context.Background())
	for name, c := range map[string]struct {
		spec  sandbox.Spec
		class sandbox.Class
		field string
	}{
		"host's network": {sandbox.Spec{Network: sandbox.Network{Mode: sandbox.HostNetwork}}, sandbox.Unsupported, "network.mode"},
		"a machine":      {sandbox.Spec{Isolation: sandbox.HardwareBoundary}, sandbox.Unsupported, "isolation"},
		"little memory":  {sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 2 << 20}}, sandbox.Unsupported, "limits.memory"},
		"disk in a dir":  {sandbox.Spec{Limits: sandbox.Limits{DiskBytes: 1 << 20}}, sandbox.Unavailable, "limits.disk"},
		"missing source": {sandbox.Spec{Mounts: []sandbox.Mount{{Source: "/no/such", Target: "/mnt"}}}, sandbox.Invalid, "mounts"},
	} {
		_, err := driver.Create(t.Context(), c.spec)
		var e *sandbox.Error
		if sandbox.ClassOf(err) != c.class || !errors.As(err, &e) || e.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnknownPool(t *testing.T) {
	daemontest.Need(t)
	driver := incus.New(incus.Options{RunDir: t.TempDir(), Pool: "no-such", Images: noImages})
	report := driver.Probe(t.Context())
	if report.Usable || !strings.Contains(report.Reason, "no-such") || report.Version == "" {
		t.Errorf("%+v", report)
	}
	if _, err := driver.Create(t.Context(), sandbox.Spec{}); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("create: %v", err)
	}
}

// images lists what the daemon holds of images.
func images(t *testing.T) (list []string) {
	t.Helper()
	if err := ask(os.Getenv(socketVariable), http.MethodGet, "/1.0/images", nil, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestDirectoryThatChanges: the daemon is given it anew, once, and keeps only the
// last.
func TestDirectoryThatChanges(t *testing.T) {
	daemontest.Need(t)
	driver, dir := newDriver(t.TempDir()), t.TempDir()
	defer driver.(sandbox.Closer).Close(context.Background())
	file := filepath.Join(dir, "text")
	before := len(images(t))
	for _, text := range []string{"one", "two", "two"} {
		if old, err := os.ReadFile(file); err != nil || string(old) != text {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		instance, err := driver.Create(t.Context(), sandbox.Spec{Image: dir})
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, instance, "/text"); got != text {
			t.Errorf("%q, want %q", got, text)
		}
		if err := instance.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		if now := images(t); len(now) != before+1 {
			t.Errorf("%d images before, and now %q", before, now)
		}
	}
}

// TestKilledProgram: the next program removes its sandboxes, running or paused,
// and nothing else.
func TestKilledProgram(t *testing.T) {
	other := create(t, sandbox.Spec{ID: "other"})
	daemontest.KilledProgram(t, newDriver, containers, nil)
	sh(t, other, "true")
}
