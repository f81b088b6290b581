package docker_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"aether/driver/command/commandtest"
	"aether/driver/daemon/daemontest"
	"aether/driver/docker"
	"aether/driver/docker/dockertest"
	"aether/guest"
	"aether/sandbox"
)

func create(t *testing.T, spec sandbox.Spec) sandbox.Instance {
	t.Helper()
	daemontest.Need(t)
	return commandtest.Create(t, newDriver(t.TempDir()), spec)
}

func sh(t *testing.T, instance sandbox.Instance, script string) string {
	t.Helper()
	out, _ := commandtest.Sh(t, instance, script)
	return out
}

func TestHostNetwork(t *testing.T) {
	daemontest.Need(t)
	commandtest.HostNetwork(t, newDriver(t.TempDir()))
}

func TestServiceCannotBeChanged(t *testing.T) {
	instance := create(t, sandbox.Spec{Command: sandbox.CommandDefaults{User: "root"}})
	for _, script := range []string{"echo x > /dev/.aether-guest", "rm -f /dev/.aether-guest", "umount /dev/.aether-guest", "kill -9 1; sleep 0.1; false"} {
		if got := sh(t, instance, "("+script+") 2>/dev/null || echo refused"); got != "refused" {
			t.Errorf("%s: %s", script, got)
		}
	}
	sh(t, instance, "true")
}

// TestRootIsHeldToo: the root of a container is the host's own, so its rights are
// what stands between.
func TestRootIsHeldToo(t *testing.T) {
	instance := create(t, sandbox.Spec{Command: sandbox.CommandDefaults{User: "root"}})
	if got := sh(t, instance, "id -u"); got != "0" {
		t.Fatalf("it is %s", got)
	}
	// chown, dac_override, fowner, fsetid, kill, setgid, setuid, sys_ptrace
	if got := sh(t, instance, "sed -n 's/^CapBnd:\t*//p' /proc/self/status"); got != "00000000000800fb" {
		t.Errorf("its capabilities are %s", got)
	}
	for _, script := range []string{"mount -t tmpfs none /mnt", "mknod /tmp/disk b 8 0", "chroot / true", "echo 1 > /sys/kernel/mm/ksm/run",
		"touch /usr/bin/new", "unshare -m true", "dmesg"} {
		if got := sh(t, instance, "("+script+") >/dev/null 2>&1 || echo refused"); got != "refused" {
			t.Errorf("%s: %q", script, got)
		}
	}
}

// images lists the daemon's images by name.
func images(t *testing.T) (names []string) {
	t.Helper()
	var list []struct {
		ID       string `json:"Id"`
		RepoTags []string
	}
	if err := dockertest.Ask(t.Context(), strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://"), "/images/json?all=1", &list); err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		names = append(names, i.RepoTags...)
		if len(i.RepoTags) == 0 {
			names = append(names, "without a name: "+i.ID)
		}
	}
	return names
}

// TestDirectoryThatChanges: the daemon is given it anew, once, and keeps only the
// last.
func TestDirectoryThatChanges(t *testing.T) {
	daemontest.Need(t)
	driver, dir := newDriver(t.TempDir()), t.TempDir()
	defer driver.(sandbox.Closer).Close(context.Background())
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "bin", "show"), "./testdata/show")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before := len(images(t))
	for _, text := range []string{"one", "two", "two"} {
		if old, err := os.ReadFile(filepath.Join(dir, "text")); err != nil || string(old) != text {
			if err := os.WriteFile(filepath.Join(dir, "text"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		instance, err := driver.Create(t.Context(), sandbox.Spec{Image: dir})
		if err != nil {
			t.Fatal(err)
		}
		c := guest.NewClient(instance.Dial, guest.ClientOptions{})
		var out bytes.Buffer
		p, err := c.Start(t.Context(), guest.Cmd{Path: "/bin/show", Args: []string{"/text"}, Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(); err != nil || out.String() != text {
			t.Errorf("%q, %v, want %q", out.String(), err, text)
		}
		c.Close()
		if err := instance.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		if now := images(t); len(now) != before+1 {
			t.Errorf("%d images before, and now %q", before, now)
		}
	}
}

// TestKilledProgram: its sandboxes end with it, except for paused ones, and the
// next program removes them all and nothing else.
func TestKilledProgram(t *testing.T) {
	other := create(t, sandbox.Spec{ID: "other"})
	daemontest.KilledProgram(t, newDriver, containers, func() {
		for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			list, err := containers()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(strings.Join(list, "\n"), "exited") {
				return
			}
		}
		t.Error("a sandbox runs on without its program")
	})
	sh(t, other, "true")
}

// TestDaemonGoesAway: its sandboxes are known to have ended, and what could not be
// removed is told.
func TestDaemonGoesAway(t *testing.T) {
	daemontest.Need(t)
	runtime.LockOSThread() // with which the daemon dies
	defer runtime.UnlockOSThread()
	dir := t.TempDir()
	socket, stop, err := dockertest.Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { stop() }()
	driver := docker.New(docker.Options{RunDir: filepath.Join(dir, "run"), Host: "unix://" + socket, Images: daemontest.Images})
	instance, err := driver.Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if exit, err := instance.Wait(ctx); err != nil || exit.Cause != sandbox.Crashed {
		t.Errorf("%+v, %v", exit, err)
	}
	if err := instance.Destroy(ctx); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("destroy: %v", err)
	}
	if _, err := driver.Create(ctx, sandbox.Spec{}); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("create: %v", err)
	}
	if _, stop, err = dockertest.Start(dir); err != nil {
		t.Fatal(err)
	}
	if instance, err = driver.Create(t.Context(), sandbox.Spec{}); err != nil {
		t.Fatalf("with the daemon back: %v", err)
	}
	sh(t, instance, "true")
	if err := driver.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n, err := driver.Reap(t.Context()); n != 1 || err != nil {
		t.Errorf("%d were reaped (%v)", n, err)
	}
}
