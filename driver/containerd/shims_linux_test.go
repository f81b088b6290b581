package containerd_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"aether/driver/containerd"
	"aether/driver/drivertest"
	"aether/guest"
	"aether/guest/inside"
	"aether/sandbox"
)

// TestConformanceOfShims is the same suite with another wall around each
// container.
func TestConformanceOfShims(t *testing.T) {
	needDaemon(t)
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
			c.New, c.Overhead, c.Left = newDriver, inside.Overhead, held
			drivertest.Run(t, c.Config)
		})
	}
}

// TestProbeOfKata: the boundary is what the shim gives, and what is missing for it
// is told.
func TestProbeOfKata(t *testing.T) {
	needDaemon(t)
	driver := containerd.New(containerd.Options{RunDir: t.TempDir(), Images: testImages, Shim: containerd.KataShim})
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

// TestDaemonThatCannotBeUsed: every failure is told within two seconds, with what
// mends it.
func TestDaemonThatCannotBeUsed(t *testing.T) {
	needDaemon(t) // else the shim is what is missing
	for name, c := range map[string]struct{ address, reason, remedy string }{
		"missing": {filepath.Join(t.TempDir(), "none"), "does not exist", "install"},
		"down":    {deadSocket(t), "nobody listens", "start it"},
		"hanging": {silentSocket(t), "does not answer", "restart it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver := containerd.New(containerd.Options{RunDir: t.TempDir(), Address: c.address, Images: testImages})
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

func soon(t *testing.T, began time.Time) {
	t.Helper()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}

func listen(t *testing.T) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return listener
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

func sh(t *testing.T, instance sandbox.Instance, script string) string {
	t.Helper()
	var out bytes.Buffer
	c := guest.NewClient(instance.Dial, guest.ClientOptions{})
	defer c.Close()
	p, err := c.Start(t.Context(), guest.Cmd{Path: "/bin/sh", Args: []string{"-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

// TestRootIsHeldToo: with runc, the root of a container is the host's own, so its
// rights are what stands between.
func TestRootIsHeldToo(t *testing.T) {
	needDaemon(t)
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
	needDaemon(t)
	runtime.LockOSThread() // with which the daemon dies
	defer runtime.UnlockOSThread()
	dir := t.TempDir()
	socket, stop, err := startDaemon(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { stop() }()
	driver := containerd.New(containerd.Options{RunDir: filepath.Join(dir, "run"), Address: socket, Images: testImages})
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

// victimVariable tells a program to make sandboxes, say so and wait to be killed.
const victimVariable = "AETHER_KATA_TEST_VICTIM"

func playVictim() (played bool, code int) {
	dir := os.Getenv(victimVariable)
	if dir == "" {
		return false, 0
	}
	driver := newDriver(dir)
	for _, id := range []string{"running", "paused"} {
		instance, err := driver.Create(context.Background(), sandbox.Spec{ID: id})
		if err == nil && id == "paused" {
			err = instance.(sandbox.Pauser).Pause(context.Background())
		}
		if err != nil {
			fmt.Println(err)
			return true, 1
		}
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
	return true, 1
}

// TestKilledProgram: the next program removes its sandboxes, also a paused one,
// with their files, and nothing of a living program.
func TestKilledProgram(t *testing.T) {
	needDaemon(t)
	dir := t.TempDir()
	victim := exec.Command("/proc/self/exe")
	victim.Env = append(os.Environ(), victimVariable+"="+dir)
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	before, err := held()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 400)
	if n, err := out.Read(said); err != nil || string(said[:n]) != "ready\n" {
		t.Errorf("%q, %v", said[:n], err)
	}
	next := newDriver(dir).(*containerd.Driver)
	if n, err := next.Reap(t.Context()); n != 0 || err != nil {
		t.Errorf("%d sandboxes of a living program were reaped (%v)", n, err)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	if n, err := next.Reap(t.Context()); n != 2 || err != nil {
		t.Errorf("%d were reaped (%v)", n, err)
	}
	if left, err := held(); err != nil || len(left) != len(before) {
		t.Errorf("%q are left (%v)", left, err)
	}
	for _, pattern := range []string{"*.owner", "*.boxes"} {
		if found, _ := filepath.Glob(filepath.Join(dir, pattern)); len(found) > 0 {
			t.Errorf("%q are left", found)
		}
	}
}
