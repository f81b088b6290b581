package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/guest"
	"aether/sandbox"
)

func start(t *testing.T, b *Backend, c guest.Command) (guest.Process, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c.Stdout, c.Stderr, c.UID, c.GID = w, w, uint32(os.Getuid()), uint32(os.Getgid())
	p, err := b.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return p, r
}

func shell(script string) guest.Command {
	return guest.Command{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: "/"}
}

func TestStartAndWait(t *testing.T) {
	b, err := New("/", "")
	if err != nil {
		t.Fatal(err)
	}
	p, out := start(t, b, shell("read nothing; echo $?; exit 3"))
	status, err := p.Wait()
	text, _ := io.ReadAll(out)
	if err != nil || status.Code != 3 || string(text) != "1\n" {
		t.Errorf("%+v, %q, %v", status, text, err)
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("a signal to one that has ended: %v", err)
	}
	if err := p.Kill(); err != nil {
		t.Errorf("killing one that has ended: %v", err)
	}
}

func TestStartErrors(t *testing.T) {
	b, err := New("/", "")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]sandbox.Class{"/no/such": sandbox.NotFound, "/etc/passwd": sandbox.Denied} {
		c := guest.Command{Path: path, Args: []string{path}, Dir: "/", UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), KillTree: true}
		if _, err := b.Start(t.Context(), c); sandbox.ClassOf(err) != want {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if _, err := New("/etc/passwd", ""); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Errorf("a file as root: %v", err)
	}
}

// TestKillFindsDaemons runs once for each way of finding them.
func TestKillFindsDaemons(t *testing.T) {
	for name, cgroup := range map[string]string{"mark": "", "cgroup": ownCgroup(t)} {
		t.Run(name, func(t *testing.T) {
			if name == "cgroup" && cgroup == "" {
				t.Skip("this host lets us make no group of the unified hierarchy")
			}
			b, err := New("/", cgroup)
			if err != nil {
				t.Fatal(err)
			}
			testKill(t, b)
			if cgroup != "" {
				awaitNoGroup(t, b)
			}
		})
	}
}

// patience bounds what has to happen, on a host of any speed.
const patience = 2 * time.Minute

func testKill(t *testing.T, b *Backend) {
	file := filepath.Join(t.TempDir(), "pid")
	c := shell(fmt.Sprintf("(setsid sh -c 'echo $$ > %s.tmp; mv %s.tmp %s; exec sleep 600' &) ; sleep 600", file, file, file))
	c.KillTree = true
	p, _ := start(t, b, c)
	var daemon int
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if text, err := os.ReadFile(file); err == nil {
			daemon, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			break
		}
	}
	if daemon == 0 {
		t.Fatal("the daemon did not start")
	}
	done := make(chan guest.Status, 1)
	go func() {
		status, _ := p.Wait()
		done <- status
	}()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if status := <-done; status.Signal != syscall.SIGKILL {
		t.Errorf("%+v", status)
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", daemon))
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
	}
	t.Error("the daemon lives")
}

func ownCgroup(t *testing.T) string {
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(mount, "cgroup.procs")); err != nil {
			continue
		}
		if dir, err := os.MkdirTemp(mount, "aether-test-"); err == nil {
			t.Cleanup(func() {
				if err := os.Remove(dir); err != nil {
					t.Error(err)
				}
			})
			return dir
		}
	}
	return ""
}

// TestLingeringGroups lets a daemon outlive the process that started it.
func TestLingeringGroups(t *testing.T) {
	cgroup := ownCgroup(t)
	if cgroup == "" {
		t.Skip("this host lets us make no group of the unified hierarchy")
	}
	b, err := New("/", cgroup)
	if err != nil {
		t.Fatal(err)
	}
	c := shell("setsid sleep 0.3 >/dev/null 2>&1 &")
	c.KillTree = true
	p, _ := start(t, b, c)
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	awaitNoGroup(t, b)
}

// awaitNoGroup waits until the groups of all processes are removed: what lives in one, or is
// killed and has not come to its end, keeps it.
func awaitNoGroup(t *testing.T, b *Backend) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		b.later.sweep()
		if left, _ := filepath.Glob(filepath.Join(b.cgroup, "process-*")); len(left) == 0 {
			return
		}
	}
	t.Error("a group is left")
}

func TestTerminalIsControlling(t *testing.T) {
	b, err := New("/", "")
	if err != nil {
		t.Fatal(err)
	}
	master, slave, err := b.OpenPTY()
	if err != nil {
		t.Skipf("this host has no terminals: %v", err)
	}
	defer master.Close()
	c := shell("echo hello > /dev/tty")
	c.TTY, c.UID, c.GID = slave, uint32(os.Getuid()), uint32(os.Getgid())
	p, err := b.Start(t.Context(), c)
	slave.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(master) // ends with EIO
	if status, err := p.Wait(); err != nil || status.Code != 0 || string(text) != "hello\r\n" {
		t.Errorf("%+v, %q, %v", status, text, err)
	}
}

func TestStats(t *testing.T) {
	b, err := New("/", "")
	if err != nil {
		t.Fatal(err)
	}
	stats, err := b.Stats(t.Context())
	if err != nil || *stats.MemoryBytes <= 0 || *stats.CPUTime <= 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	for _, text := range []string{"", "cpu 1 2", "cpu a b c d e f g h"} {
		if _, err := cpuTime([]byte(text)); err == nil {
			t.Errorf("%q was understood", text)
		}
	}
	if _, err := memoryUsed([]byte("nonsense")); err == nil {
		t.Error("nonsense was understood")
	}
}
