package oci_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/driver/command/commandtest"
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
