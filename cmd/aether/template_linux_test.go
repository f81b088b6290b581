package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// command runs aether with any command.
func command(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	cmd := aether(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// prepareTemplate prepares a template that is gone after the test.
func prepareTemplate(t *testing.T, name, stdin string, args ...string) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("cells are forked on amd64 only")
	}
	t.Cleanup(func() { command(t, "", "template", "rm", name) })
	if got := command(t, stdin, append([]string{"template", "prepare", name}, args...)...); got.status != 0 || got.stderr != "" {
		t.Fatalf("prepare: %+v", got)
	}
}

func want(t *testing.T, got outcome, stdout, stderr string, status int) {
	t.Helper()
	if got.stdout != stdout || got.status != status || !strings.Contains(got.stderr, stderr) || stderr == "" && got.stderr != "" {
		t.Errorf("got %+v, want %q, %q, %d", got, stdout, stderr, status)
	}
}

func TestTemplateOfCode(t *testing.T) {
	needs(t, "/usr/bin/python3")
	prepareTemplate(t, "code", "import random\nx = 41\nrandom.seed(1)\nopen('/tmp/kept', 'w').write('kept')", "--code", "python", "-")
	for _, c := range []struct {
		name, stdin    string
		args           []string
		stdout, stderr string
		status         int
	}{
		{"value", "", []string{"-c", "x + 1"}, "42\n", "", 0},
		{"output and value", "", []string{"-c", "print('a')\nx"}, "a\n41\n", "", 0},
		{"by standard input", "print(x)", nil, "41\n", "", 0},
		{"error output", "", []string{"-c", "import sys; print('e', file=sys.stderr)"}, "", "e\n", 0},
		{"failure", "", []string{"-c", "1/0"}, "", "ZeroDivisionError", 1},
		{"exit", "", []string{"-c", "raise SystemExit(7)"}, "", "", 7},
		{"killed", "", []string{"-c", "import os; os.kill(os.getpid(), 9)"}, "", "", 137},
		{"timeout", "", []string{"--timeout", "300ms", "-c", "while True: pass"}, "", "--timeout", 124},
		{"a command beside it", "", []string{"--", "cat", "/tmp/kept"}, "kept", "", 0},
		{"input of a command", "abc", []string{"-i", "--", "cat"}, "abc", "", 0},
		{"status of a command", "", []string{"--", "sh", "-c", "exit 9"}, "", "", 9},
		{"no such command", "", []string{"--", "no-such-command"}, "", "not in PATH", 127},
		{"code and a command", "", []string{"-c", "x", "--", "true"}, "", "-c", 2},
		{"a flag that is the template's", "", []string{"--image", "x", "--", "true"}, "", "--image", 2},
		{"a terminal", "", []string{"-t", "-c", "x"}, "", "-t", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			want(t, run(t, c.stdin, append([]string{"--template", "code"}, c.args...)...), c.stdout, c.stderr, c.status)
		})
	}
	draw := []string{"--template", "code", "-c", "random.random()"}
	if a, b := run(t, "", draw...), run(t, "", draw...); a.stdout == b.stdout {
		t.Errorf("two forks draw the same %q", a.stdout)
	}
}

func TestTemplateAnswersInJSON(t *testing.T) {
	needs(t, "/usr/bin/python3")
	prepareTemplate(t, "json", "x = 41", "--code", "python", "-")
	var answer struct {
		Sandbox, Template, Driver string
		Exit                      int
		Times                     struct {
			Fork float64 `json:"fork_ms"`
		}
		Results []struct{ Text string }
	}
	got := run(t, "", "--template", "json", "--json", "-c", "x + 1")
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	if answer.Template != "json" || answer.Driver != "cell" || answer.Times.Fork <= 0 || len(answer.Results) != 1 || answer.Results[0].Text != "42" {
		t.Errorf("%s", got.stdout)
	}
}

func TestTemplateOfACommand(t *testing.T) {
	prepareTemplate(t, "line", "", "--run", "echo before > /tmp/x", "--ready-line", "up", "--ahead", "2",
		"--", "sh", "-c", "read x < /tmp/x; echo up; while read l; do echo $x $l; done; exit 3")
	want(t, run(t, "a\nb\n", "--template", "line"), "before a\nbefore b\n", "", 3)
	want(t, run(t, "c\n", "--template", "line"), "before c\n", "", 3)
	want(t, run(t, "", "--template", "line", "-c", "x"), "", "no interpreter", 2)
}

func TestTemplateForksAtOnce(t *testing.T) {
	needs(t, "/usr/bin/python3")
	prepareTemplate(t, "many", "x = 1", "--code", "python", "-")
	done := make(chan outcome)
	for range 8 {
		go func() { done <- run(t, "", "--template", "many", "-c", "x + 1") }()
	}
	for range 8 {
		want(t, <-done, "2\n", "", 0)
	}
	got := command(t, "", "template", "show", "many", "--tree")
	if !strings.Contains(got.stdout, "├─ 3 forks before") || strings.Count(got.stdout, "lived for") != 5 {
		t.Errorf("the tree is %+v", got)
	}
}

// The first interrupt stops the code, which may say so.
func TestTemplateCodeIsInterrupted(t *testing.T) {
	needs(t, "/usr/bin/python3")
	prepareTemplate(t, "stop", "import time", "--code", "python", "-")
	cmd := aether(t, "run", "--template", "stop", "-c", "print('begun', flush=True)\ntime.sleep(1000)")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != 130 {
		t.Errorf("status %d", status)
	}
}

type listed struct {
	Name, State string
	Holder      int
	Living      int `json:"living_children"`
}

func list(t *testing.T, name string) *listed {
	t.Helper()
	var all []listed
	if err := json.Unmarshal([]byte(command(t, "", "template", "list", "--json").stdout), &all); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

func eventually(holds func() bool) bool {
	for range 300 {
		if holds() {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

// A child ends with whoever asked for it, however that one ends.
func TestTemplateChildrenEndWithTheirClients(t *testing.T) {
	prepareTemplate(t, "orphans", "", "--", "sleep", "1000")
	cmd := aether(t, "run", "--template", "orphans", "--", "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return list(t, "orphans").Living == 1 }) {
		t.Error("there is no child")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if !eventually(func() bool { return list(t, "orphans").Living == 0 }) {
		t.Error("the child outlives its client")
	}
}

func TestTemplateOfAKilledHolder(t *testing.T) {
	prepareTemplate(t, "killed", "", "--", "sleep", "1000")
	if err := kill(list(t, "killed").Holder); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return list(t, "killed").State == "dead" }) {
		t.Errorf("it is %s", list(t, "killed").State)
	}
	want(t, run(t, "", "--template", "killed", "--", "true"), "", "died", 125)
	if got := command(t, "", "template", "show", "killed"); got.status != 0 || !strings.Contains(got.stdout, "dead") {
		t.Errorf("%+v", got)
	}
	want(t, command(t, "", "template", "prepare", "killed", "--json", "--", "no-such-command"), "", "no-such-command", 1)
	prepareTemplate(t, "killed", "", "--", "sleep", "1000")
	want(t, run(t, "", "--template", "killed", "--", "echo", "anew"), "anew\n", "", 0)
}

func TestTemplateRemove(t *testing.T) {
	prepareTemplate(t, "gone", "", "--", "sleep", "1000")
	holder := list(t, "gone").Holder
	want(t, command(t, "", "template", "prepare", "gone", "--", "sleep", "1"), "", "exists already", 1)
	want(t, command(t, "", "template", "rm", "gone"), "", "", 0)
	want(t, command(t, "", "template", "rm", "gone"), "", "none of this name", 1)
	if list(t, "gone") != nil {
		t.Error("it is still listed")
	}
	if s := state(holder); s != "" && s != "Z" {
		t.Errorf("process %d still runs", holder)
	}
	if left, err := filepath.Glob(filepath.Join(stateDir, "run", "templates", "gone*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v is left", left, err)
	}
}

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

// state is a letter: a process whose parent has gone may be a zombie for a while.
func state(pid int) string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[:min(1, len(rest))]
}

func TestTemplateSocketIsPrivate(t *testing.T) {
	prepareTemplate(t, "private", "", "--", "sleep", "1000")
	dir := filepath.Join(stateDir, "run", "templates", "private")
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "socket"): 0o600, filepath.Join(dir, "manifest.json"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s is %v, %v", path, info, err)
		}
	}
}

func TestTemplateRefusesBadInput(t *testing.T) {
	for _, c := range []struct {
		args   []string
		says   string
		status int
	}{
		{[]string{"template", "lst"}, "did you mean list?", 2},
		{[]string{"template", "prepare"}, "name", 2},
		{[]string{"template", "prepare", "A", "--", "true"}, "name", 2},
		{[]string{"template", "prepare", "a"}, "nothing to leave running", 2},
		{[]string{"template", "prepare", "a", "--code", "python"}, "one file of code", 2},
		{[]string{"template", "prepare", "a", "--code", "cobol", "-"}, "language", 2},
		{[]string{"template", "prepare", "a", "--code", "python", "/no/such/file"}, "/no/such/file", 2},
		{[]string{"template", "prepare", "a", "--ready-line", "a", "--ready-file", "/b", "--", "true"}, "ready", 2},
		{[]string{"template", "prepare", "a", "--ahead", "-1", "--", "true"}, "--ahead", 2},
		{[]string{"template", "prepare", "a", "--memory", "lots", "--", "true"}, "--memory", 2},
		{[]string{"template", "prepare", "a", "--run", "exit 3", "--", "true"}, "status 3", 1},
		{[]string{"template", "show", "nothing"}, "none of this name", 1},
		{[]string{"template", "rm"}, "one name or more", 2},
		{[]string{"run", "--template", "nothing", "--", "true"}, "none of this name", 125},
		{[]string{"run", "-c", "x", "--", "true"}, "-c", 2},
		{[]string{"bench", "frok"}, "did you mean fork?", 2},
		{[]string{"bench", "fork", "--rounds", "-1"}, "rounds", 2},
	} {
		got := command(t, "", c.args...)
		if got.status != c.status || got.stdout != "" || !strings.Contains(got.stderr, c.says) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("aether %q: %+v", c.args, got)
		}
	}
}

// A preparation ends with whoever asked for it, and leaves nothing.
func TestTemplatePreparationIsInterrupted(t *testing.T) {
	cmd := aether(t, "template", "prepare", "slow", "--ready-file", "/no/such/file", "--", "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { l := list(t, "slow"); return l != nil && l.State == "preparing" && l.Holder > 0 }) {
		t.Error("it is not being prepared")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if !eventually(func() bool { return list(t, "slow") == nil }) {
		t.Errorf("%+v is left", list(t, "slow"))
	}
}
