package containerd_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"aether/driver/command/commandtest"
	"aether/driver/containerd"
	"aether/driver/daemon/daemontest"
	"aether/driver/drivertest"
	"aether/driver/guestagent"
	"aether/sandbox"
)

// TestConformanceOfShims is the same suite with another wall around each
// container.
func TestConformanceOfShims(t *testing.T) {
	daemontest.Need(t)
	for name, c := range map[string]struct {
		shim string
		drivertest.Config
	}{
		"gvisor": {containerd.RunscShim, drivertest.Config{Pace: 5}},
		"kata":   {containerd.KataShim, drivertest.Config{Pace: 20, Memory: 256 << 20}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(shimVariable, c.shim)
			if report := newDriver(t.TempDir()).Probe(t.Context()); !report.Usable {
				t.Skipf("%s (%s)", report.Reason, report.Remedy)
			}
			c.New, c.Overhead, c.Left = newDriver, guestagent.Overhead, held
			drivertest.Run(t, c.Config)
		})
	}
}

// TestProbeOfKata: the boundary is what the shim gives, and what is missing for it
// is told.
func TestProbeOfKata(t *testing.T) {
	daemontest.Need(t)
	driver := containerd.New(containerd.Options{RunDir: t.TempDir(), Images: daemontest.Images, Shim: containerd.KataShim})
	if got := driver.Info(); got.Boundary != sandbox.HardwareBoundary || got.Name != "kata" {
		t.Errorf("%+v", got)
	}
	report := driver.Probe(t.Context())
	if report.Version == "" {
		t.Errorf("the daemon is there: %+v", report)
	}
	if _, err := exec.LookPath("containerd-shim-kata-v2"); err == nil {
		t.Skip("the shim is installed")
	}
	if report.Usable || !strings.Contains(report.Reason, "containerd-shim-kata-v2") || !strings.Contains(report.Remedy, "Kata") {
		t.Errorf("%+v", report)
	}
	if _, err := driver.Create(t.Context(), sandbox.Spec{}); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("create: %v", err)
	}
}

func TestDaemonThatCannotBeUsed(t *testing.T) {
	daemontest.Need(t) // else the shim is what is missing
	at := func(dir, address string) sandbox.Driver {
		return containerd.New(containerd.Options{RunDir: dir, Address: address, Images: daemontest.Images})
	}
	daemontest.CannotBeUsed(t, at, map[string]daemontest.Unusable{
		"missing": {daemontest.Missing(t), "does not exist", "install"},
		"down":    {daemontest.Dead(t), "nobody listens", "start it"},
		"hanging": {daemontest.Silent(t), "does not answer", "restart it"},
	})
}

func sh(t *testing.T, instance sandbox.Instance, script string) string {
	t.Helper()
	out, _ := commandtest.Sh(t, instance, script)
	return out
}

// TestRootIsHeldToo: with runc, the root of a container is the host's own, so its
// rights are what stands between.
func TestRootIsHeldToo(t *testing.T) {
	daemontest.Need(t)
	driver := newDriver(t.TempDir()).(*containerd.Driver)
	defer driver.Close(context.Background())
	instance, err := driver.Create(t.Context(), sandbox.Spec{Command: sandbox.CommandDefaults{User: "root"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := sh(t, instance, "id -u; sed -n 's/^CapBnd:\t*//p' /proc/self/status"); got != "0\n00000000000800fb" {
		t.Errorf("it is %q", got)
	}
	for _, script := range []string{"mount -t tmpfs none /mnt", "mknod /tmp/disk b 8 0", "chroot / true", "touch /usr/bin/new", "unshare -m true", "dmesg",
		"echo x > /.aether-guest", "rm -f /.aether-guest", "kill -9 1; sleep 0.1; false"} {
		if got := sh(t, instance, "("+script+") >/dev/null 2>&1 || echo refused"); got != "refused" {
			t.Errorf("%s: %q", script, got)
		}
	}
}

// TestSandboxOutlivesItsDaemon: containerd can be restarted under it.
func TestSandboxOutlivesItsDaemon(t *testing.T) {
	daemontest.Need(t)
	runtime.LockOSThread() // with which the daemon dies
	defer runtime.UnlockOSThread()
	dir := t.TempDir()
	socket, stop, err := startDaemon(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { stop() }()
	driver := containerd.New(containerd.Options{RunDir: filepath.Join(dir, "run"), Address: socket, Images: daemontest.Images})
	instance, err := driver.Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if got := sh(t, instance, "echo alive"); got != "alive" {
		t.Errorf("without its daemon it says %q", got)
	}
	if _, err := driver.Create(t.Context(), sandbox.Spec{}); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("create: %v", err)
	}
	if _, stop, err = startDaemon(dir); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, instance, "echo alive"); got != "alive" {
		t.Errorf("with a new daemon it says %q", got)
	}
	if err := driver.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := list(socket); err != nil || len(left) > 0 {
		t.Errorf("%q are left (%v)", left, err)
	}
}

// TestKilledProgram: the next program removes its sandboxes, also a paused one,
// with their files, and nothing of a living program.
func TestKilledProgram(t *testing.T) {
	daemontest.Need(t)
	daemontest.KilledProgram(t, newDriver, held, nil)
}
