package examplestest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"aether/internal/unprivtest"
)

// examples is the other module.
const examples = "../../examples"

// unavailable is the status by which an example says that the host lacks what it
// needs.
const unavailable = 69

// goCommand runs the go command among the examples. It may not change go.mod or
// go.sum, which a reader takes as they are, and heeds no workspace.
func goCommand(t *testing.T, verb string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{verb, "-mod=readonly"}, args...)...)
	cmd.Dir = examples
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v (if go.mod is out of date: cd examples && go mod tidy)\n%s", verb, err, out)
	}
	return string(out)
}

func TestExamplesBuild(t *testing.T) { goCommand(t, "vet", "./...") }

// TestAgent runs the program of docs/embedding.md, and wants what that page shows.
func TestAgent(t *testing.T) {
	dir, err := os.MkdirTemp("", "aether-examples-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	program := filepath.Join(dir, "agent")
	goCommand(t, "build", "-o", program, "./agent")
	t.Run("as this user", func(t *testing.T) { runAgent(t, exec.Command(program)) })
	t.Run("as an ordinary user", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("this user is one already")
		}
		if err := errors.Join(os.Chown(dir, unprivtest.ID, unprivtest.ID), os.Chmod(dir, 0o711)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivtest.ID, Gid: unprivtest.ID}}
		runAgent(t, cmd)
	})
}

// primed differs from host to host: which interpreter there is, and whether the
// user may freeze it.
var primed = regexp.MustCompile(`(python|bash) is primed and (frozen|ready)`)

func runAgent(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == unavailable {
		t.Skipf("this host cannot run it: %s", out)
	}
	shown := block(t, "embedding.md", "console", "$ cd examples && go run ./agent\n")
	if err != nil || primed.ReplaceAllString(string(out), "") != primed.ReplaceAllString(shown, "") {
		t.Errorf("it ends with %v and prints\n%s\nand is shown as\n%s", err, strings.TrimSpace(string(out)), shown)
	}
}
