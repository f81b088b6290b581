package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"aether/engine"
)

// agentScript: a file is wrong, two forks try to mend it, and the second does.
const agentScript = `{
"main": [{"calls": [{"name": "file_read", "arguments": {"sandbox": "here", "path": "/tmp/answer"}}]}],
"1": [{"calls": [{"name": "file_write", "arguments": {"sandbox": "here", "path": "/tmp/answer", "content": "41\n"}}]}, {"text": "Not sure."}],
"2": [{"calls": [{"name": "file_write", "arguments": {"sandbox": "here", "path": "/tmp/answer", "content": "42\n"}}]}, {"text": "Mended."}]}`

// TestAgentRuns: the program runs and draws a branching run by an engine of its own, and by a
// daemon, where it works in a fork of a sandbox and keeps the best.
func TestAgentRuns(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("cells are forked on amd64 only")
	}
	file := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(file, []byte(agentScript), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("engine", func(t *testing.T) {
		out := runAgent(t, "", 0, "--script", file, "--setup", "echo 7 >/tmp/answer", "--branch-at", "2", "--model", "openai/any")
		if out.Answer != "Mended." || out.Line != "2" || out.Sandbox != "" {
			t.Errorf("%+v", out)
		}
		tree := agentDo(t, "", 0, "show", out.Run)
		if !strings.Contains(tree, "├─ 1  dropped  failed, scored 0") || !strings.Contains(tree, "└─ 2  kept  passed, scored 1") {
			t.Errorf("it is drawn as\n%s", tree)
		}
		again := runAgent(t, "", 0, "--replay", out.Run, "--setup", "echo 7 >/tmp/answer", "--branch-at", "2")
		if again.Answer != out.Answer || again.Line != out.Line {
			t.Errorf("replayed %+v as %+v", out, again)
		}
		// Nobody mends it before the first step.
		if out := runAgent(t, "", 1, "--script", file, "--setup", "echo 7 >/tmp/answer", "--max-steps", "1", "--branch", "0"); out.Why != "steps" {
			t.Errorf("%+v", out)
		}
	})
	t.Run("rm", func(t *testing.T) {
		out := runAgent(t, "", 0, "--script", file, "--setup", "echo 7 >/tmp/answer", "--branch-at", "2")
		if removed := agentDo(t, "", 0, "rm", "--keep", "1"); removed == "" || strings.Contains(removed, out.Run) {
			t.Errorf("all but the newest are %q", removed)
		}
		agentDo(t, "", 0, "show", out.Run)
		for _, wrong := range [][]string{{"rm"}, {"rm", "--keep", "-1"}, {"rm", "--keep", "1", out.Run}} {
			agentDo(t, "", 2, wrong...)
		}
		agentDo(t, "", 1, "rm", "../agent/"+out.Run)
		if removed := agentDo(t, "", 0, "rm", out.Run); removed != out.Run+"\n" {
			t.Errorf("removed is %q", removed)
		}
		agentDo(t, "", 1, "rm", out.Run)
		agentDo(t, "", 1, "show", out.Run)
	})
	t.Run("daemon", func(t *testing.T) {
		d := serve(t, t.TempDir())
		c := d.client()
		source, err := c.Create(t.Context(), engine.CreateRequest{})
		if err != nil {
			t.Fatal(err)
		}
		out := runAgent(t, "AETHER_URL=unix://"+d.socket, 0, "--script", file, "--from", source.ID, "--keep", "--setup", "echo 7 >/tmp/answer", "--branch-at", "2", "--checkpoint", "every-call")
		page, err := c.List(t.Context(), engine.Query{States: []engine.State{engine.Running}})
		if err != nil || len(page.Sandboxes) != 2 || out.Sandbox == "" {
			t.Fatalf("%d sandboxes run after %+v, %v", len(page.Sandboxes), out, err)
		}
		if kept, err := c.Get(t.Context(), out.Sandbox); err != nil || !kept.Keep || !kept.Expires.IsZero() {
			t.Errorf("what is kept is %+v, %v", kept, err)
		}
		var answer bytes.Buffer
		cmd := aether(t, "exec", out.Sandbox, "--", "cat", "/tmp/answer")
		cmd.Env, cmd.Stdout = append(cmd.Env, "AETHER_URL=unix://"+d.socket), &answer
		if err := cmd.Run(); err != nil || answer.String() != "42\n" {
			t.Errorf("what is kept says %q, %v", answer.String(), err)
		}
	})
}

type agentOutcome struct{ Run, Why, Line, Sandbox, Answer string }

func runAgent(t *testing.T, env string, status int, args ...string) (out agentOutcome) {
	t.Helper()
	args = append([]string{"run", "--json", "--branch", "2", "--score", "grep -q 42 /tmp/answer"}, args...)
	text := agentDo(t, env, status, append(args, "Mend it.")...)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

func agentDo(t *testing.T, env string, status int, args ...string) string {
	t.Helper()
	cmd := aether(t, append([]string{"agent"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Fatalf("%v: status %d, %v\n%s%s", args, got, err, stdout.String(), stderr.String())
	}
	return stdout.String()
}
