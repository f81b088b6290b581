package vmm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

var testSystem = System{Name: "test", Program: "test-monitor", Remedy: "install it", MaxCPUs: 32,
	Version: func(said string) (string, error) {
		if strings.TrimSpace(said) != "monitor 1" {
			return "", &sandbox.Error{Class: sandbox.Unavailable, Reason: "it is another program", Remedy: "install it"}
		}
		return "1", nil
	}}

func script(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "monitor")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// known has what a program says be known: a probe on a busy host may not have the time to
// hear it.
func known(t *testing.T, program string) {
	t.Helper()
	if _, err := versionOf(t.Context(), program, patience); err != nil {
		t.Fatal(err)
	}
}

// Whatever is in the place of a monitor: a probe says what, in time.
func TestProbeOfWhatIsNoMonitor(t *testing.T) {
	known(t, "/bin/true")
	for name, c := range map[string]struct{ program, reason string }{
		"missing":            {"/nowhere/monitor", "is not installed"},
		"a directory":        {t.TempDir(), "is not installed"},
		"another program":    {"/bin/true", "it is another program"},
		"one that fails":     {"/bin/false", "does not run"},
		"one that hangs":     {script(t, "sleep 1000"), "does not run"},
		"endless words":      {script(t, "while :; do echo monitor 1; done"), "does not run"},
		"a child that stays": {script(t, "sleep 1000 & exit 1"), "does not run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := New(testSystem, Options{Program: c.program, StateDir: t.TempDir()})
			began := time.Now()
			report := d.Probe(t.Context())
			if took := time.Since(began); took > patience {
				t.Errorf("it took %v", took)
			}
			if report.Usable || !strings.Contains(report.Reason, c.reason) || report.Remedy != "install it" {
				t.Errorf("%+v", report)
			}
			ctx := t.Context()
			if name == "one that hangs" { // whoever makes a machine waits longer than a probe
				hurried, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				ctx = hurried
			}
			_, err := d.Create(ctx, sandbox.Spec{})
			if sandbox.ClassOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("class %v: %v", sandbox.ClassOf(err), err)
			}
		})
	}
}

// With a monitor but without a usable KVM, or without a kernel, that is what it
// says.
func TestProbeOfTheHost(t *testing.T) {
	opts := Options{Program: script(t, "echo monitor 1"), StateDir: t.TempDir(),
		Guest: func() (string, error) { return "", errors.New("no guest") }}
	opts.Kernel.Named = "/nowhere/vmlinuz"
	known(t, opts.Program)
	report := New(testSystem, opts).Probe(t.Context())
	if report.Usable || report.Version != "test 1" {
		t.Errorf("%+v", report)
	}
	if kvm := kvmWorks(); kvm != nil {
		var e *sandbox.Error
		if !errors.As(kvm, &e) || !strings.HasPrefix(report.Reason, e.Reason) || report.Remedy != e.Remedy {
			t.Errorf("%+v, and KVM says %v", report, kvm)
		}
		_, err := New(testSystem, opts).Create(context.Background(), sandbox.Spec{})
		if sandbox.ClassOf(err) != sandbox.Unavailable {
			t.Errorf("class %v: %v", sandbox.ClassOf(err), err)
		}
	} else if !strings.Contains(report.Reason, "vmlinuz") {
		t.Errorf("%+v", report)
	}
}

func TestRefusals(t *testing.T) {
	e := &engine{system: testSystem, unlimited: errors.New("no groups")}
	for field, change := range map[string]func(*sandbox.Spec){
		"limits.memory":          func(s *sandbox.Spec) { s.Limits.MemoryBytes = leastMemory - 1 },
		"limits":                 func(s *sandbox.Spec) { s.Limits.CPUs = 33 },
		"limits.disk_backed":     func(s *sandbox.Spec) { s.Limits.DiskBacked = true },
		"limits.disk_write_rate": func(s *sandbox.Spec) { s.Limits.DiskWriteRate = 1 << 20 },
		"limits.cpus":            func(s *sandbox.Spec) { s.Limits.CPUs = 0.5 },
		"network.mode":           func(s *sandbox.Spec) { s.Network.Mode = sandbox.HostNetwork },
		"mounts":                 func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Source: "/a", Target: "/b"}} },
	} {
		var spec sandbox.Spec
		change(&spec)
		var failure *sandbox.Error
		if err := e.accepts(t.Context(), spec); !errors.As(err, &failure) || failure.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := e.accepts(t.Context(), sandbox.Spec{Isolation: sandbox.HardwareBoundary, Limits: sandbox.Limits{CPUs: 2}}); err != nil {
		t.Error(err)
	}
}

// A program that is replaced is asked again.
func TestVersionIsOfTheFile(t *testing.T) {
	name := script(t, "echo monitor 1")
	for _, c := range []struct{ text, version string }{{"", "1"}, {"#!/bin/sh\necho monitor 22\n", ""}} {
		if c.text != "" {
			if err := os.WriteFile(name, []byte(c.text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if got, err := findProgram(t.Context(), testSystem, name, patience); got.version != c.version || (err == nil) != (c.version != "") {
				t.Errorf("%q: %+v, %v", c.text, got, err)
			}
		}
	}
}

// A driver that could not run can once what was missing has come, and none that
// was closed.
func TestOpenIsTriedAgain(t *testing.T) {
	name := filepath.Join(t.TempDir(), "monitor")
	d := New(testSystem, Options{Program: name, StateDir: t.TempDir()})
	_, err := d.Create(t.Context(), sandbox.Spec{})
	if sandbox.ClassOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(), "not installed") {
		t.Errorf("without a program: %v", err)
	}
	if err := os.Symlink("/bin/true", name); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(t.Context(), sandbox.Spec{}); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("with one: %v", err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := d.Create(t.Context(), sandbox.Spec{}); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Errorf("a driver that is closed: %v", err)
	}
}
