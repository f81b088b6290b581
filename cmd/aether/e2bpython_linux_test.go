package main

import (
	"embed"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

//go:embed testdata/e2bpy
var e2bPython embed.FS

// pythonBehaviours is how many the clients try, both of them together.
const pythonBehaviours = 138

// TestE2BPython has the official clients of E2B for Python use a daemon, the one that waits
// for answers and the one that does not: each behaviour is a test of both.
func TestE2BPython(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a cell of an ordinary user may have one user, and templates are built by two")
	}
	setGateway(t)
	home := installPython(t)
	state := t.TempDir()
	s := serve(t, state)
	url := "http://" + s.address
	env := []string{"PYTHONPATH=" + filepath.Join(home, "packages"), "E2B_API_URL=" + url, "E2B_SANDBOX_URL=" + url, "E2B_API_KEY=" + newKey(t, state, "--tenant", "acme")}
	results := runClient(t, home, []string{"python3", "main.py"}, env...)
	if len(results) != pythonBehaviours {
		t.Errorf("%d behaviours were tried, and there are %d", len(results), pythonBehaviours)
	}
	for _, r := range results {
		t.Run(r.Name, func(t *testing.T) {
			if r.Error != "" {
				t.Error(r.Error)
			}
		})
	}
	runExample(t, home, "e2b/sandbox.py", []string{"python3"}, env...)
	runExample(t, home, "e2b/agent.py", []string{"python3"}, append(env, "OPENAI_BASE_URL="+scriptedModel(t), "OPENAI_API_KEY=none")...)
	// By a model's own package and that of MCP, which the clients have with them.
	runExample(t, home, "mcp/agent.py", []string{"python3"}, append(asProgram(t), env[0], "OPENAI_BASE_URL="+helloModel(t)+"/v1", "OPENAI_API_KEY="+modelKey)...)
	if status := s.stop(syscall.SIGTERM); status != 0 || strings.Contains(s.complain.String(), "panic") {
		t.Errorf("the daemon ends with %d: %s", status, s.complain)
	}
}

// scriptedModel is a model that runs one command and says the last line of what that wrote.
func scriptedModel(t *testing.T) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Messages) == 0 {
			http.Error(w, "not a chat", http.StatusBadRequest)
			return
		}
		last := asked.Messages[len(asked.Messages)-1]
		message := map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"id": "one", "type": "function",
			"function": map[string]any{"name": "exec_command", "arguments": `{"cmd": "echo hello from $((6 * 7))"}`}}}}
		if last.Role == "tool" {
			lines := strings.Split(strings.TrimSpace(last.Content), "\n")
			message = map[string]any{"role": "assistant", "content": lines[len(lines)-1]}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "chat", "object": "chat.completion", "created": 1, "model": "scripted",
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": message}}})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// pipOffline is what pip says where no registry can be reached, or where it is not there.
var pipOffline = regexp.MustCompile(`NewConnectionError|No module named pip|ConnectTimeoutError|requires a different Python|externally-managed`)

// installPython puts the clients and their packages in a directory.
func installPython(t *testing.T) string {
	t.Helper()
	needTools(t, "python3", "node", "git", "bash")
	home := t.TempDir()
	copyOut(t, e2bPython, "testdata/e2bpy", home)
	// The interpreter itself: what pyenv has in its place keeps a register of what pip installs,
	// for which it waits where somebody else was interrupted while holding it.
	python, err := exec.CommandContext(t.Context(), "python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Fatal(err)
	}
	pip := exec.CommandContext(t.Context(), strings.TrimSpace(string(python)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--timeout", "120", "--target", "packages", "-r", "requirements.txt")
	pip.Dir = home
	out, err := pip.CombinedOutput()
	if err != nil && pipOffline.Match(out) {
		t.Skipf("this host cannot install packages: %s", out)
	}
	if err != nil {
		t.Fatalf("pip install: %v\n%s", err, out)
	}
	return home
}
