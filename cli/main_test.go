package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aether/driver/all"
	"aether/sandbox"
)

var update = flag.Bool("update", false, "write the golden files anew")

// outcome is what one run of the command left.
type outcome struct {
	stdout, stderr string
	status         int
}

func run(t *testing.T, drivers []sandbox.Driver, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := Main(t.Context(), args, strings.NewReader(""), &stdout, &stderr, makers(drivers))
	return outcome{stdout.String(), stderr.String(), status}
}

// makers is a table whose drivers are made already.
func makers(drivers []sandbox.Driver) []sandbox.Maker {
	var list []sandbox.Maker
	for _, d := range drivers {
		list = append(list, sandbox.Maker{Name: d.Info().Name, New: func() sandbox.Driver { return d }})
	}
	return list
}

// succeed runs a command that must say nothing on standard error.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	return succeedWith(t, nil, args...)
}

func succeedWith(t *testing.T, drivers []sandbox.Driver, args ...string) string {
	t.Helper()
	got := run(t, drivers, args...)
	if got.status != 0 || got.stderr != "" {
		t.Fatalf("aether %s: status %d, stderr %q", strings.Join(args, " "), got.status, got.stderr)
	}
	return got.stdout
}

// golden compares with a file under testdata, which -update writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update writes it anew)\ngot\n%s\nwant\n%s", file, got, want)
	}
}

func TestGoldens(t *testing.T) {
	for name, args := range map[string]string{
		"rank.txt":          "rank",
		"rank.json":         "rank --json",
		"rank-core.txt":     "rank --core",
		"rank-by.txt":       "rank --core --by Isolation",
		"rank-weighted.txt": "rank --core --weight isolation=3,start-latency=2",
		"rank-decided.json": "rank --weight isolation=3 --weight start=2 --need isolation>=0.85,fitness>0.7 --json",
		"compare.txt":       "compare AETHER fc",
		"compare.json":      "compare aethervm firecracker --json",
		"compare-why.txt":   "compare qemu docker --why",
		"compare-why.json":  "compare qemu docker --why --json",
		"profile.txt":       "profile incus",
		"profile-bare.txt":  "profile utm",
		"profile-plan.txt":  "profile aether",
		"profile.json":      "profile chv --json",
		"profile-bare.json": "profile cell --json",
		"systems.txt":       "systems",
		"systems.json":      "systems --json",
		"help.txt":          "--help",
		"agent-show.txt":    "agent show testdata/agent-run.jsonl",
		"agent-show.json":   "agent show testdata/agent-run.jsonl --json",
		"help-rank.txt":     "rank --help",
	} {
		var drivers []sandbox.Driver // what systems says of them differs from host to host
		if !strings.HasPrefix(name, "systems") {
			drivers = all.Drivers()
		}
		t.Run(name, func(t *testing.T) { golden(t, name, succeedWith(t, drivers, strings.Fields(args)...)) })
	}
}

func TestBadInput(t *testing.T) {
	for args, says := range map[string]string{
		"rnak":                          `command: "rnak" is not known`,
		"rnak --core":                   "did you mean rank?",
		"--cor":                         `flag: "--cor" is not known`,
		"help rnak":                     "did you mean rank?",
		"rank extra":                    `arguments: rank takes none, not "extra"`,
		"rank --cor":                    "did you mean --core?",
		"rank -x":                       `flag: "-x" is not known`,
		"rank --json=maybe":             `--json: "maybe" is not a bool`,
		"lab check --rounds=x":          `--rounds: "x" is not a whole number`,
		"rank --by":                     "--by: a value must follow",
		"rank --by=":                    `axis: "" is not known (known: start-latency, `,
		"rank --by isolatoin":           "did you mean isolation?",
		"rank --weight isolaton=3":      `weight: axis: "isolaton" is not known`,
		"rank --weight isolation":       "is not AXIS=NUMBER",
		"rank --weight isolation=-1":    "-1 of isolation",
		"rank --weight density=NaN":     "NaN of density",
		"rank --weight=":                "is not AXIS=NUMBER",
		"rank --need isolation":         "compares nothing (as 'isolation>=0.8', quoted",
		"rank --need isolation>=2":      "not a number from 0 to 1",
		"rank --need fittness>=0.5":     "did you mean fitness?",
		"compare":                       "compare takes two systems, 0 given (usage: aether compare A B",
		"compare docker":                "compare takes two systems, 1 given",
		"compare docker kata fc":        "compare takes two systems, 3 given",
		"compare docker firecraker":     "did you mean firecracker?",
		"compare virtualbox docker":     `system: "virtualbox" is not known (known: aethervm, firecracker, `,
		"profile":                       "profile takes one system, 0 given",
		"profile qmeu":                  "did you mean qemu?",
		"profile cloud":                 "did you mean cloud-hypervisor?",
		"systems all":                   "systems takes none",
		"version 2":                     "version takes none",
		"completion":                    "completion takes one shell",
		"completion tcsh":               "(known: bash, fish, powershell, zsh)\n",
		"rank --json --weight speed=1":  "weight: axis:",
		"profile a --json --unheard-of": "--unheard-of",
		"agent rnu":                     "did you mean run?",
		"agent run":                     "run takes one task, 0 given",
		"agent run --model gpt x":       "is not PROVIDER/NAME",
		"agent run --checkpoint all x":  "every-call",
		"agent show root.go":            "transcript: line 1 is no entry",
	} {
		t.Run(args, func(t *testing.T) {
			got := run(t, nil, strings.Fields(args)...)
			if got.status != 2 || got.stdout != "" {
				t.Errorf("status %d, stdout %q", got.status, got.stdout)
			}
			checkLine(t, got.stderr, says)
		})
	}
}

func TestNewlinesInNamesStayOneLine(t *testing.T) {
	got := run(t, nil, "profile", "a\nb\x1b[31m")
	checkLine(t, got.stderr, `"a\nb\x1b[31m" is not known`)
}

func checkLine(t *testing.T, stderr, says string) {
	t.Helper()
	if !strings.HasPrefix(stderr, "aether: ") || strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") {
		t.Errorf("not one line of aether: %q", stderr)
	}
	if !strings.Contains(stderr, says) {
		t.Errorf("%q does not say %q", stderr, says)
	}
}

func TestNeedThatNobodyMeets(t *testing.T) {
	got := run(t, nil, "rank", "--need", "isolation>0.95")
	if got.status != 0 || got.stdout != "" {
		t.Errorf("status %d, stdout %q", got.status, got.stdout)
	}
	checkLine(t, got.stderr, "no system meets every need")
	if out := succeed(t, "rank", "--need", "isolation>0.95", "--json"); out != "[]\n" {
		t.Errorf("JSON is %q", out)
	}
}

func TestExitStatuses(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
		says string
	}{
		{nil, 0, ""},
		{exitCode(42), 42, ""},
		{errors.Join(exitCode(0)), 0, ""},
		{sandbox.Invalidf("image", "is wrong"), 2, "aether: image: is wrong\n"},
		{&sandbox.Error{Class: sandbox.Unavailable, Reason: "no\nkvm", Remedy: "get one"}, 1, "aether: no kvm (get one)\n"},
		{context.DeadlineExceeded, 1, "aether: context deadline exceeded\n"},
	} {
		var stderr bytes.Buffer
		if got := report(&stderr, c.err); got != c.want || stderr.String() != c.says {
			t.Errorf("%v: status %d, stderr %q, want %d, %q", c.err, got, stderr.String(), c.want, c.says)
		}
	}
}

// full is a file system without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestFailedOutputIsAFailure(t *testing.T) {
	for _, args := range []string{"rank", "rank --json", "compare kata fc", "profile kata", "systems", "version", "completion bash"} {
		var stderr bytes.Buffer
		status := Main(t.Context(), strings.Fields(args), strings.NewReader(""), full{}, &stderr, nil)
		if status != 1 {
			t.Errorf("%s: status %d", args, status)
		}
		checkLine(t, stderr.String(), "no space left")
	}
}

// A command that is listed under another name than its own would not be found by it.
func TestCommandsAreListedByTheirNames(t *testing.T) {
	for _, g := range groups(newDrivers(nil)) {
		for _, e := range g.commands {
			c := e.make()
			if names := strings.Join(append([]string{c.Name()}, c.Aliases...), " "); names != e.names {
				t.Errorf("%s is listed as %s", names, e.names)
			}
			if got := commandNames(newRoot(newDrivers(nil), c.Name())); !slices.Equal(got, []string{c.Name()}) {
				t.Errorf("for %s, %q are made", c.Name(), got)
			}
		}
	}
}

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	names := append(commandNames(newRoot(newDrivers(nil))), "help", "")
	for _, name := range names {
		for _, args := range [][]string{{name, "--help"}, {"help", name}} {
			out := succeed(t, strings.Fields(strings.Join(args, " "))...)
			if !strings.Contains(out, "Examples:\n  ") || !strings.Contains(out, "Usage:\n  aether") {
				t.Errorf("%q has no examples:\n%s", args, out)
			}
		}
	}
}
