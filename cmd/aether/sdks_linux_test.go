package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"aether/agent/script"
)

// sdkBehaviours is how many the providers' packages try.
const sdkBehaviours = 10

// madeBy is an argument that a scripted model takes of an earlier answer.
func madeBy(answer string) map[string]any { return map[string]any{"answer": answer} }

func says(name string, arguments map[string]any) script.Call {
	return script.Call{Name: name, Arguments: arguments}
}

// mending is what a model says that mends a program, forks it, goes back and cleans up. Of the
// sandbox it knows what it was answered.
func mending() script.Script {
	run := func(id string) script.Call {
		return says("command_run", map[string]any{"sandbox": madeBy(id), "command": "sh /tmp/app/main.sh"})
	}
	here, parent, child := madeBy("sandbox"), madeBy("sandboxes.0.parent"), madeBy("sandboxes.0.sandbox")
	var turns []script.Turn
	for _, calls := range [][]script.Call{
		{says("sandbox_create", nil)},
		{says("file_write", map[string]any{"sandbox": here, "path": "/tmp/app/main.sh", "content": "cat /tmp/app/inputt\n"}),
			says("file_write", map[string]any{"sandbox": here, "path": "/tmp/app/input", "content": "right\n"})},
		{run("sandbox")},
		{says("file_read", map[string]any{"sandbox": here, "path": "/tmp/app/inputt"})},
		{{Next: true}},
		{says("file_edit", map[string]any{"sandbox": here, "path": "/tmp/app/main.sh", "old": "/tmp/app/inputt", "new": madeBy("files.0.path")})},
		{run("sandbox")},
		{says("snapshot_create", map[string]any{"sandbox": here}), says("sandbox_fork", map[string]any{"sandbox": here})},
		{says("file_write", map[string]any{"sandbox": child, "path": "/tmp/app/input", "content": "forked\n"}),
			says("file_remove", map[string]any{"sandbox": parent, "path": "/tmp/app"})},
		{run("sandboxes.0.sandbox"), run("sandboxes.0.parent")},
		{says("sandbox_rollback", map[string]any{"sandbox": parent, "snapshot": madeBy("snapshot")})},
		{run("sandboxes.0.parent")},
		{says("sandbox_destroy", map[string]any{"sandbox": child}), says("sandbox_destroy", map[string]any{"sandbox": parent}),
			says("snapshot_delete", map[string]any{"snapshot": madeBy("snapshot")})},
	} {
		turns = append(turns, script.Turn{Calls: calls})
	}
	return script.Script{"main": append(turns, script.Turn{Text: "Done."})}
}

// mended is what the commands of that print, and the class of its one failure.
const mended = `["", "not_found", "right\n", "forked\n", "", "right\n"]`

// asProgram has a directory in which this program is called aether.
func asProgram(t *testing.T) (env []string) {
	t.Helper()
	dir := t.TempDir()
	cmd := aether(t)
	if err := os.Symlink(cmd.Path, filepath.Join(dir, "aether")); err != nil {
		t.Fatal(err)
	}
	return append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
}

// TestProvidersPackages has the packages of Anthropic, OpenAI and Google hold the projections of
// the tools to their own types, and work through them with a scripted model.
func TestProvidersPackages(t *testing.T) {
	home, node := installMCPClients(t)
	env := asProgram(t)
	t.Run("types", func(t *testing.T) {
		writeProjections(t, filepath.Join(home, "projections.ts"), env)
		tsc := exec.CommandContext(t.Context(), node, "node_modules/typescript/bin/tsc", "-p", ".")
		tsc.Dir = home
		if out, err := tsc.CombinedOutput(); err != nil {
			t.Errorf("%v\n%.4000s", err, out)
		}
	})
	results := runClient(t, home, []string{node, "sdks.ts"}, append(env, "MODEL_URL="+serveModel(t, mending()), "MODEL_KEY="+modelKey, "WANTED="+mended)...)
	if len(results) != sdkBehaviours {
		t.Errorf("%d behaviours were tried, and there are %d", len(results), sdkBehaviours)
	}
	for _, r := range results {
		t.Run(r.Name, func(t *testing.T) {
			if r.Error != "" {
				t.Error(r.Error)
			}
		})
	}
}

// TestAgentInTypeScript runs the agent of the examples with a scripted model.
func TestAgentInTypeScript(t *testing.T) {
	home, node := installMCPClients(t)
	runExample(t, home, "mcp/agent.ts", []string{node}, append(asProgram(t), "ANTHROPIC_BASE_URL="+helloModel(t), "ANTHROPIC_API_KEY="+modelKey)...)
}

const modelKey = "sk-scripted"

// serveModel has a script be what models say.
func serveModel(t *testing.T, s script.Script) (url string) {
	t.Helper()
	server, err := script.Serve(s, modelKey)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.URL
}

// helloModel is a model that runs one command, keeps what that printed, and says so.
func helloModel(t *testing.T) (url string) {
	t.Helper()
	here := madeBy("sandbox")
	return serveModel(t, script.Script{"main": {
		{Calls: []script.Call{says("sandbox_create", nil)}},
		{Calls: []script.Call{says("command_run", map[string]any{"sandbox": here, "command": "echo hello from $((6 * 7))"})}},
		{Calls: []script.Call{says("file_write", map[string]any{"sandbox": here, "path": "/tmp/said", "content": madeBy("stdout.text")})}},
		{Calls: []script.Call{says("command_run", map[string]any{"sandbox": madeBy("sandbox"), "command": "grep 'hello from 42' /tmp/said"})}},
		{Text: "hello from 42"},
	}})
}

// geminiType is a type of a schema, which Google's package has as an enumeration.
var geminiType = regexp.MustCompile(`"type": ?"([A-Z]+)"`)

// writeProjections writes a program that is well typed if the projections are what the
// packages' types say, and no more; and if those types tell what is not.
func writeProjections(t *testing.T, file string, env []string) {
	t.Helper()
	var text strings.Builder
	text.WriteString("import type Anthropic from \"@anthropic-ai/sdk\";\nimport type OpenAI from \"openai\";\nimport { Type, type Tool } from \"@google/genai\";\n")
	for format, of := range map[string]string{"anthropic": "Anthropic.Tool[]", "openai": "OpenAI.Chat.Completions.ChatCompletionFunctionTool[]",
		"openai-responses": "OpenAI.Responses.FunctionTool[]", "gemini": "Tool[]"} {
		cmd := aether(t, "tools", "--format", format)
		cmd.Env = env
		list, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(list) {
			t.Fatalf("%s: %s", format, list)
		}
		// A word that a type does not have is an error, or the compiler says that there is none.
		wrong := strings.Replace(string(list), `"description"`, `"descriptoin"`, 1)
		for name, list := range map[string]string{"right": string(list), "wrong": wrong} {
			if list = strings.TrimSpace(list); format == "gemini" {
				list = geminiType.ReplaceAllString(list, `"type": Type.$1`)
			}
			if name == "wrong" {
				list = "// @ts-expect-error\n" + oneLine(list)
			}
			fmt.Fprintf(&text, "export const %s_%s =\n%s satisfies %s;\n", name, strings.ReplaceAll(format, "-", "_"), list, of)
		}
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// oneLine is JSON on one line, of which an error is said where that begins.
func oneLine(list string) string { return strings.Join(strings.Fields(list), " ") }
