package oci_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aether/driver/command/commandtest"
	"aether/driver/oci"
	"aether/sandbox"
)

func TestProbeSaysWhatIsMissing(t *testing.T) {
	forEach(t, func(t *testing.T) { commandtest.ProbeSaysWhatIsMissing(t, newDriver, os.Getenv(runtimeVariable)) })
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
		if took := time.Since(began); took > time.Minute { // it has two seconds, and the program a thousand
			t.Errorf("it took %v", took)
		}
		if left := commandtest.Below(t)["sleep"]; len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	})
}

// TestOneYoukiForAll: youki would be a copy of itself for each sandbox, and now and then
// fail to seal it. One that was replaced serves from the next sandbox on.
func TestOneYoukiForAll(t *testing.T) {
	t.Setenv(runtimeVariable, string(oci.Youki))
	installed, err := exec.LookPath(string(oci.Youki))
	if err != nil || os.Geteuid() != 0 {
		t.Skip("it needs youki, and root")
	}
	program, err := os.ReadFile(installed)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := func() {
		t.Helper()
		next := filepath.Join(dir, "next")
		if err := errors.Join(os.WriteFile(next, program, 0o755), os.Rename(next, filepath.Join(dir, "youki"))); err != nil {
			t.Fatal(err)
		}
	}
	replace()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	driver := newDriver(t.TempDir())
	copies := func() int {
		t.Helper()
		var seen []os.FileInfo
		// Executed by its descriptor, a program has the descriptor's name.
		for _, pid := range commandtest.Below(t)["4"] {
			exe := fmt.Sprintf("/proc/%d/exe", pid)
			if name, err := os.Readlink(exe); name != "/memfd:youki (deleted)" {
				t.Errorf("%d is %s, %v", pid, name, err)
			}
			info, err := os.Stat(exe)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(seen, func(one os.FileInfo) bool { return os.SameFile(one, info) }) {
				seen = append(seen, info)
			}
		}
		return len(seen)
	}
	commandtest.Create(t, driver, sandbox.Spec{})
	for want := 1; want <= 2; want++ {
		if _, err := driver.Create(t.Context(), sandbox.Spec{}); err != nil {
			t.Fatal(err)
		}
		if got := copies(); got != want {
			t.Errorf("%d copies of youki, and %d programs were there", got, want)
		}
		replace()
	}
}

func TestServiceThatDoesNotAnswer(t *testing.T) {
	forEach(t, func(t *testing.T) { commandtest.ServiceThatDoesNotAnswer(t, newDriver) })
}

func TestBoxCrashes(t *testing.T) {
	forEach(t, func(t *testing.T) { commandtest.Crash(t, newDriver(t.TempDir())) })
}

func TestBoxWithTheLeastMemory(t *testing.T) {
	forEach(t, func(t *testing.T) { commandtest.LeastMemory(t, newDriver(t.TempDir())) })
}

func TestBoxInheritsNothing(t *testing.T) {
	forEach(t, func(t *testing.T) { commandtest.InheritsNothing(t, newDriver(t.TempDir())) })
}
