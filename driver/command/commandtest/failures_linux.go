package commandtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/driver/guestagent"
	"aether/internal/host/proctree"
	"aether/sandbox"
)

// ProbeSaysWhatIsMissing hides what a sandbox needs, of which the system's program
// is one.
func ProbeSaysWhatIsMissing(t *testing.T, make Maker, program string) {
	for name, hide := range map[string]func(*testing.T){
		program:    func(t *testing.T) { t.Setenv("PATH", t.TempDir()) },
		"/no/such": func(t *testing.T) { t.Setenv(guestagent.PathVariable, "/no/such") },
	} {
		t.Run(name, func(t *testing.T) {
			hide(t)
			driver := make(t.TempDir())
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

// ServiceThatDoesNotAnswer has other programs run in place of the service. What they
// say reaches the caller without what a terminal would obey.
func ServiceThatDoesNotAnswer(t *testing.T, make Maker) {
	for script, want := range map[string]sandbox.Class{
		`printf '\033[31mit is \007broken\033[0m\n' >&2; exit 3`: sandbox.Unavailable,
		"exec sleep 1000": sandbox.Timeout,
		"exec yes":        sandbox.Timeout,
	} {
		t.Run(script, func(t *testing.T) { wantNoAnswer(t, make, script, want) })
	}
}

func wantNoAnswer(t *testing.T, make Maker, script string, want sandbox.Class) {
	program := filepath.Join(t.TempDir(), "guest")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(guestagent.PathVariable, program)
	driver := make(t.TempDir())
	patience := 2 * time.Minute // within which the first one is noticed to have ended
	if want == sandbox.Timeout {
		patience = time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := driver.Create(ctx, sandbox.Spec{})
	if sandbox.ClassOf(err) != want || want == sandbox.Unavailable && !strings.Contains(err.Error(), "it is broken") {
		t.Errorf("%v, want %v", err, want)
	}
	if strings.ContainsAny(fmt.Sprint(err), "\x1b\x07") {
		t.Errorf("%q is not to be printed", err)
	}
	if err := driver.(sandbox.Closer).Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left := Below(t); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// Crash ends the service, with which the sandbox ends.
func Crash(t *testing.T, driver sandbox.Driver) {
	instance := Create(t, driver, sandbox.Spec{})
	services := Below(t)[".aether-guest"]
	if len(services) != 1 {
		t.Fatalf("%v serve", services)
	}
	if err := proctree.Kill(services[0]); err != nil {
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

// InheritsNothing wants no process of a sandbox to have a descriptor of ours.
func InheritsNothing(t *testing.T, driver sandbox.Driver) {
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
	instance := Create(t, driver, sandbox.Spec{})
	for name, pids := range Below(t) {
		for _, pid := range pids {
			links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
			for _, link := range links {
				if target, _ := os.Readlink(link); target == ours {
					t.Errorf("%s %d has our %s", name, pid, ours)
				}
			}
		}
	}
	if got, _ := Sh(t, instance, "ls /proc/self/fd | wc -l"); got != "4" { // with the one that lists
		t.Errorf("a command has %s descriptors", got)
	}
}
