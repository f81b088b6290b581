package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
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
	Name, State, Sandbox string
	Version              int
	Living               int `json:"living_children"`
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

// patience is how long what must happen is waited for, also on a host that is slow: who
// waits for it that long has found a defect.
const patience = 2 * time.Minute

func eventually(holds func() bool) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return holds()
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

// daemonPid is the process of the daemon that commands of these tests have started, or
// zero. Those that it keeps ready to become sandboxes look as it does.
func daemonPid() int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well-formed
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && isDaemon(pid) && !isDaemon(parent(pid)) {
			return pid
		}
	}
	return 0
}

// isDaemon is false for another program, and for one that has just ended.
func isDaemon(pid int) bool {
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	environ, failed := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && failed == nil && bytes.Contains(command, []byte("\x00serve\x00--idle-exit\x00")) && bytes.Contains(environ, []byte("AETHER_STATE_DIR="+stateDir+"\x00"))
}

// endDaemon ends the daemon that commands have started, if there is one.
func endDaemon(by os.Signal) error {
	pid := daemonPid()
	if pid == 0 {
		return nil
	}
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Signal(by)
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) { // as one that has nothing to do ends by itself
		return err
	}
	if !eventually(func() bool { s := state(pid); return s == "" || s == "Z" }) {
		return fmt.Errorf("process %d does not end by %v", pid, by)
	}
	return nil
}

// TestTemplateOutlivesItsDaemon: however a daemon ends, the next one, which whoever needs
// it starts, has the templates of the last.
func TestTemplateOutlivesItsDaemon(t *testing.T) {
	prepareTemplate(t, "stays", "", "--run", "echo here > /tmp/x", "--", "sleep", "1000")
	was := list(t, "stays")
	for _, by := range []os.Signal{os.Kill, syscall.SIGTERM} {
		if err := endDaemon(by); err != nil {
			t.Fatal(err)
		}
		want(t, run(t, "", "--template", "stays", "--", "cat", "/tmp/x"), "here\n", "", 0)
		if now := list(t, "stays"); now.State != "ready" || now.Sandbox != was.Sandbox || now.Version != 1 {
			t.Errorf("after %v it is %+v", by, now)
		}
	}
}

func TestTemplateRemove(t *testing.T) {
	prepareTemplate(t, "gone", "", "--", "sleep", "1000")
	want(t, command(t, "", "template", "prepare", "gone", "--", "sleep", "1"), "", "exists already", 1)
	want(t, command(t, "", "template", "rm", "gone"), "", "", 0)
	want(t, command(t, "", "template", "rm", "gone"), "", "none of this name", 1)
	if list(t, "gone") != nil {
		t.Error("it is still listed")
	}
	if left, err := filepath.Glob(filepath.Join(stateDir, "daemon", "templates", "*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v is left", left, err)
	}
}

// TestTemplateVersions: the next version takes the place of the last, tags name versions,
// and a sandbox can become one.
func TestTemplateVersions(t *testing.T) {
	prepareTemplate(t, "next", "", "--tag", "stable", "--run", "echo 1 > /tmp/v", "--", "sleep", "1000")
	prepareTemplate(t, "next", "", "--replace", "--run", "echo 2 > /tmp/v", "--", "sleep", "1000")
	for ref, v := range map[string]string{"next": "2\n", "next:stable": "1\n", "next@1": "1\n"} {
		want(t, run(t, "", "--template", ref, "--", "cat", "/tmp/v"), v, "", 0)
	}
	want(t, command(t, "", "template", "tag", "next", "stable"), "", "", 0)
	want(t, run(t, "", "--template", "next:stable", "--", "cat", "/tmp/v"), "2\n", "", 0)
	want(t, run(t, "", "--template", "next@1", "--", "true"), "", "none of this name", 125)
	made := command(t, "", "create", "--template", "next")
	id := strings.TrimSpace(made.stdout)
	t.Cleanup(func() { command(t, "", "rm", id); command(t, "", "template", "rm", "promoted") })
	want(t, command(t, "", "exec", id, "--", "sh", "-c", "echo 3 > /tmp/v"), "", "", 0)
	if got := command(t, "", "template", "promote", id, "promoted"); got.status != 0 || !strings.Contains(got.stdout, "promoted is ready") {
		t.Errorf("%+v", got)
	}
	want(t, run(t, "", "--template", "promoted", "--", "cat", "/tmp/v"), "3\n", "", 0)
}

func TestPoolOfATemplate(t *testing.T) {
	prepareTemplate(t, "pooled", "", "--", "sleep", "1000")
	want(t, command(t, "", "pool", "set", "pooled", "2"), "", "", 0)
	full := func() bool {
		got := command(t, "", "pool", "list", "--json")
		return strings.Contains(got.stdout, `"ready": 2`)
	}
	if !eventually(full) {
		t.Errorf("the pool is %+v", command(t, "", "pool", "list"))
	}
	want(t, run(t, "", "--template", "pooled", "--", "echo", "hi"), "hi\n", "", 0)
	if got := command(t, "", "pool", "list", "--json"); !strings.Contains(got.stdout, `"claimed": 1`) || !strings.Contains(got.stdout, `"direct": 0`) {
		t.Errorf("it was not claimed: %+v", got)
	}
	want(t, command(t, "", "pool", "set", "pooled", "0"), "", "", 0)
	want(t, command(t, "", "pool", "list"), "", "nothing is kept ready", 0)
	want(t, command(t, "", "pool", "set", "pooled", "x"), "", "size", 2)
}

// state is a letter: a process whose parent has gone may be a zombie for a while.
func state(pid int) string {
	letter, _, _ := strings.Cut(stat(pid), " ")
	return letter
}

// parent is the process that has started another, or zero.
func parent(pid int) (above int) {
	var letter string
	if _, err := fmt.Sscan(stat(pid), &letter, &above); err != nil {
		return 0
	}
	return above
}

// stat is what the kernel says of a process after its name.
func stat(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest
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
	if !eventually(func() bool { l := list(t, "slow"); return l != nil && l.State == "preparing" }) {
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

// TestTemplateCommandsAreCached: the output says which commands ran, and --no-cache has
// all of them run.
func TestTemplateCommandsAreCached(t *testing.T) {
	run := []string{"--run", "echo 1 > /tmp/x", "--json", "--", "sleep", "1000"}
	prepareTemplate(t, "layers", "", run...)
	for i, again := range [][]string{nil, {"--no-cache"}} {
		got := command(t, "", append(append([]string{"template", "prepare", "layers", "--replace"}, again...), run...)...)
		if cached := strings.Contains(got.stdout, `"cached": true`); got.status != 0 || cached != (i == 0) {
			t.Errorf("%q: %+v", again, got)
		}
	}
	got := command(t, "", "template", "show", "layers")
	if !strings.Contains(got.stdout, "ran in") || !strings.Contains(got.stdout, "ms: sh -c echo 1 > /tmp/x") {
		t.Errorf("it shows %s", got.stdout)
	}
}
