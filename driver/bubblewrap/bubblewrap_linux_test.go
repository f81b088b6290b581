package bubblewrap_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/driver/drivertest"
	"aether/guest"
	"aether/guest/inside"
	"aether/sandbox"
)

func TestAgainAsOrdinaryUser(t *testing.T) {
	needBwrap(t)
	drivertest.AsOrdinaryUser(t, "^(TestConformance|TestBox.*)$", storeVariable+"=")
}

func create(t *testing.T, spec sandbox.Spec) sandbox.Instance {
	t.Helper()
	needBwrap(t)
	driver := newDriver(t.TempDir())
	instance, err := driver.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := driver.(sandbox.Closer).Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return instance
}

func sh(t *testing.T, instance sandbox.Instance, script string) (string, guest.Status) {
	t.Helper()
	client := guest.NewClient(instance.Dial, guest.ClientOptions{})
	defer client.Close()
	var out bytes.Buffer
	p, err := client.Start(t.Context(), guest.Cmd{Path: "/bin/sh", Args: []string{"-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	status, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String()), status
}

func TestProbeSaysWhatIsMissing(t *testing.T) {
	needBwrap(t)
	for name, set := range map[string]func(*testing.T){
		"bwrap":    func(t *testing.T) { t.Setenv("PATH", t.TempDir()) },
		"/no/such": func(t *testing.T) { t.Setenv(inside.PathVariable, "/no/such") },
	} {
		t.Run(name, func(t *testing.T) {
			set(t)
			driver := newDriver(t.TempDir())
			report := driver.Probe(t.Context())
			if report.Usable || !strings.Contains(report.Reason, name) || report.Remedy == "" {
				t.Errorf("%+v", report)
			}
			if _, err := driver.Create(t.Context(), sandbox.Spec{}); sandbox.ClassOf(err) != sandbox.Unavailable {
				t.Errorf("create: %v", err)
			}
		})
	}
}

// TestServiceThatDoesNotAnswer has other programs run in place of the service.
func TestServiceThatDoesNotAnswer(t *testing.T) {
	needBwrap(t)
	for script, want := range map[string]sandbox.Class{
		"echo it is broken >&2; exit 3": sandbox.Unavailable,
		"exec sleep 1000":               sandbox.Timeout,
		"exec yes":                      sandbox.Timeout,
	} {
		t.Run(script, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "guest")
			if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv(inside.PathVariable, program)
			driver := newDriver(t.TempDir())
			patience := 10 * time.Second // within which the first one is noticed to have ended
			if want == sandbox.Timeout {
				patience = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := driver.Create(ctx, sandbox.Spec{})
			if sandbox.ClassOf(err) != want || want == sandbox.Unavailable && !strings.Contains(err.Error(), "it is broken") {
				t.Errorf("%v, want %v", err, want)
			}
			if err := driver.(sandbox.Closer).Close(t.Context()); err != nil {
				t.Error(err)
			}
			if left := processes(t, "bwrap", "sleep", "yes"); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

// processes gives the children of this program, and theirs, that have such names.
func processes(t *testing.T, names ...string) (found []int) {
	t.Helper()
	below := map[int]bool{os.Getpid(): true}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		for _, file := range stats {
			text, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			var pid, parent int
			var name, state string
			if _, err := fmt.Sscanf(string(text), "%d (%s %s %d", &pid, &name, &state, &parent); err != nil || !below[parent] || below[pid] {
				continue
			}
			below[pid] = true
			for _, want := range names {
				if strings.TrimSuffix(name, ")") == want && state != "Z" {
					found = append(found, pid)
				}
			}
		}
	}
	return found
}

func TestBoxCrashes(t *testing.T) {
	instance := create(t, sandbox.Spec{})
	services := processes(t, ".aether-guest")
	if len(services) != 1 {
		t.Fatalf("%v serve", services)
	}
	if err := syscall.Kill(services[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	exit, err := instance.Wait(t.Context())
	if err != nil || exit.Cause != sandbox.Crashed || exit.Detail == "" {
		t.Errorf("%+v, %v", exit, err)
	}
	if _, err := instance.Dial(t.Context()); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("dial: %v", err)
	}
}

// TestBoxFillsItsMemoryWithFiles: those are not freed by killing a command. Either
// the service can still remove them or the sandbox ends and says why.
func TestBoxFillsItsMemoryWithFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user has no cgroups to limit memory by")
	}
	instance := create(t, sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 48 << 20}})
	client := guest.NewClient(instance.Dial, guest.ClientOptions{})
	defer client.Close()
	if p, err := client.Start(t.Context(), guest.Cmd{Path: "sh", Args: []string{"-c", "exec head -c 512M /dev/zero > /tmp/file"}}); err == nil {
		_, _ = p.Wait()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	removed := client.Remove(ctx, "/tmp/file")
	if removed == nil {
		if _, status := sh(t, instance, "true"); status.Code != 0 {
			t.Errorf("with its files gone it cannot run a command: %+v", status)
		}
		return
	}
	exit, err := instance.Wait(ctx)
	if err != nil || exit.Cause != sandbox.OutOfMemory {
		t.Errorf("%+v, %v (remove: %v)", exit, err, removed)
	}
}

func TestBoxInheritsNothing(t *testing.T) {
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil { // without close-on-exec
		t.Fatal(err)
	}
	defer syscall.Close(ends[0])
	defer syscall.Close(ends[1])
	ours, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", ends[0]))
	if err != nil {
		t.Fatal(err)
	}
	instance := create(t, sandbox.Spec{})
	for _, pid := range processes(t, "bwrap", ".aether-guest") {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, link := range links {
			if target, _ := os.Readlink(link); target == ours {
				t.Errorf("process %d has our %s", pid, ours)
			}
		}
	}
	if got, _ := sh(t, instance, "ls /proc/self/fd | wc -l"); got != "4" { // with the one that lists
		t.Errorf("a command has %s descriptors", got)
	}
}

func TestBoxCannotChangeItsService(t *testing.T) {
	instance := create(t, sandbox.Spec{})
	for _, script := range []string{"echo x > /dev/.aether-guest", "rm -f /dev/.aether-guest", "echo x > /dev/new", "kill -9 1; kill -TERM 1; sleep 0.1; false"} {
		if out, status := sh(t, instance, script); status.Code == 0 {
			t.Errorf("%s: %s", script, out)
		}
	}
	sh(t, instance, "true")
}

func TestBoxOnTheHostsNetwork(t *testing.T) {
	instance := create(t, sandbox.Spec{Network: sandbox.Network{Mode: sandbox.HostNetwork}})
	inside, _ := sh(t, instance, "sed -n 's/^ *\\([^:]*\\):.*/\\1/p' /proc/net/dev")
	devices, err := os.ReadDir("/sys/class/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		if !strings.Contains(inside, d.Name()) {
			t.Errorf("%s is not among %q", d.Name(), inside)
		}
	}
}
