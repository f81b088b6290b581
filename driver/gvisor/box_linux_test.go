package gvisor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/driver/command/commandtest"
	"aether/driver/guestagent"
	"aether/driver/gvisor"
	"aether/internal/host/proctree"
	"aether/sandbox"
)

func TestBoxProbeSaysWhatIsMissing(t *testing.T) {
	need(t)
	for name, set := range map[string]func(*testing.T){
		"runsc":     func(t *testing.T) { t.Setenv("PATH", t.TempDir()); t.Setenv(gvisor.PathVariable, "") },
		"/no/runsc": func(t *testing.T) { t.Setenv(gvisor.PathVariable, "/no/runsc") },
		"/no/such":  func(t *testing.T) { t.Setenv(guestagent.PathVariable, "/no/such") },
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

func TestProbeOfAProgramThatHangs(t *testing.T) {
	program := filepath.Join(t.TempDir(), "runsc")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nsleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(gvisor.PathVariable, program)
	began := time.Now()
	if report := newDriver(t.TempDir()).Probe(t.Context()); report.Usable || report.Reason == "" {
		t.Errorf("%+v", report)
	}
	if took := time.Since(began); took > time.Minute { // it has two seconds, and the program a thousand
		t.Errorf("it took %v", took)
	}
	if left := commandtest.Below(t)["sleep"]; len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestUnknownPlatform(t *testing.T) {
	driver := gvisor.New(gvisor.Options{RunDir: t.TempDir(), Platform: "magic"})
	_, err := driver.Create(t.Context(), sandbox.Spec{})
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != sandbox.Invalid || e.Field != "platform" {
		t.Errorf("%v", err)
	}
}

// TestBoxHasAKernelOfItsOwn looks at a sandbox from inside.
func TestBoxHasAKernelOfItsOwn(t *testing.T) {
	need(t)
	instance := commandtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{ID: "walls"})
	for script, want := range map[string]string{
		"uname -r | grep -c gvisor":                              "1",
		"cat /proc/1/comm":                                       ".aether-guest",
		"cat /proc/sys/kernel/hostname":                          "walls",
		"sed -n 's/^CapBnd:.//p' /proc/self/status":              "00000000000800fb", // command.Capabilities
		"ls /proc/self/fd | wc -l":                               "4",                // with the one that lists
		"echo x > /dev/.aether-guest || echo no":                 "no",
		"kill -TERM 1; kill -HUP 1; sleep 0.1; cat /proc/1/comm": ".aether-guest",
		"mount -t tmpfs none /srv || echo no":                    "no",
		"df -P /tmp | tail -1 | tr -s ' ' | cut -d' ' -f6":       "/", // counted with all that is written
	} {
		if got, _ := commandtest.Sh(t, instance, "{ "+script+"; } 2>/dev/null"); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
}

func TestBoxOnTheHostsNetwork(t *testing.T) {
	need(t)
	commandtest.HostNetwork(t, newDriver(t.TempDir()))
}

func TestBoxWithTheLeastMemory(t *testing.T) {
	need(t)
	commandtest.LeastMemory(t, newDriver(t.TempDir()))
}

// TestBoxCrashes: the end of gVisor's kernel is the end of the sandbox.
func TestBoxCrashes(t *testing.T) {
	need(t)
	instance := commandtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{})
	if err := proctree.Kill(kernelPid(t)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	exit, err := instance.Wait(ctx)
	if err != nil || exit.Cause != sandbox.Crashed || exit.Detail == "" {
		t.Errorf("%+v, %v", exit, err)
	}
	if left := commandtest.Below(t); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func kernelPid(t *testing.T) int {
	t.Helper()
	for _, pids := range commandtest.Below(t) {
		for _, pid := range pids {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err == nil && strings.HasPrefix(string(line), "runsc-sandbox\x00") {
				return pid
			}
		}
	}
	t.Fatalf("%v run, and none is a kernel", commandtest.Below(t))
	return 0
}
