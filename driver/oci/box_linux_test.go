package oci_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/driver/launched/launchedtest"
	"aether/guest/inside"
	"aether/sandbox"
)

func TestProbeSaysWhatIsMissing(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for name, set := range map[string]func(*testing.T){
			os.Getenv(runtimeVariable): func(t *testing.T) { t.Setenv("PATH", t.TempDir()) },
			"/no/such":                 func(t *testing.T) { t.Setenv(inside.PathVariable, "/no/such") },
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
	})
}

func TestUnknownRuntime(t *testing.T) {
	t.Setenv(runtimeVariable, "sh")
	driver := newDriver(t.TempDir())
	if report := driver.Probe(t.Context()); report.Usable || !strings.Contains(report.Remedy, "crun") {
		t.Errorf("%+v", report)
	}
	_, err := driver.Create(t.Context(), sandbox.Spec{})
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != sandbox.Invalid || e.Field != "runtime" {
		t.Errorf("%v", err)
	}
}

// TestProbeOfAProgramThatHangs: a probe has its time, whatever the program does.
func TestProbeOfAProgramThatHangs(t *testing.T) {
	forEach(t, func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, os.Getenv(runtimeVariable)), []byte("#!/bin/sh\nsleep 1000\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		began := time.Now()
		if report := newDriver(t.TempDir()).Probe(t.Context()); report.Usable || report.Reason == "" {
			t.Errorf("%+v", report)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
		if left := launchedtest.Below(t)["sleep"]; len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	})
}

// TestServiceThatDoesNotAnswer has other programs run in place of the service.
func TestServiceThatDoesNotAnswer(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for script, want := range map[string]sandbox.Class{
			"echo it is broken >&2; exit 3": sandbox.Unavailable,
			"exec sleep 1000":               sandbox.Timeout,
			"exec yes":                      sandbox.Timeout,
		} {
			t.Run(script, func(t *testing.T) { wantNoAnswer(t, script, want) })
		}
	})
}

func wantNoAnswer(t *testing.T, script string, want sandbox.Class) {
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
	if left := launchedtest.Below(t); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestBoxCrashes(t *testing.T) {
	forEach(t, func(t *testing.T) {
		instance := launchedtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{})
		services := launchedtest.Below(t)[".aether-guest"]
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
	})
}

func TestBoxWithTheLeastMemory(t *testing.T) {
	forEach(t, func(t *testing.T) { launchedtest.LeastMemory(t, newDriver(t.TempDir())) })
}

func TestBoxInheritsNothing(t *testing.T) {
	forEach(t, func(t *testing.T) {
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
		launchedtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{})
		for _, pids := range launchedtest.Below(t) {
			for _, pid := range pids {
				links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
				for _, link := range links {
					if target, _ := os.Readlink(link); target == ours {
						t.Errorf("process %d has our %s", pid, ours)
					}
				}
			}
		}
	})
}
