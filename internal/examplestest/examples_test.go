package examplestest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// examples is the other module.
const examples = "../../examples"

// unavailable is the status by which an example says that the host lacks what it
// needs.
const unavailable = 69

// command is one to run among the examples, outside of any workspace.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = examples
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return cmd
}

// goCommand runs the go command, which may not change go.mod or go.sum: they are
// what a reader copies.
func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	cmd := command(t, "go", append([]string{args[0], "-mod=readonly"}, args[1:]...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v (if go.mod is out of date: cd examples && go mod tidy)\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the examples make sandboxes of Linux")
	}
}

func TestExamplesBuild(t *testing.T) {
	onLinux(t)
	goCommand(t, "vet", "./...")
}

// TestAgent runs the program of docs/embedding.md and wants what that page shows.
func TestAgent(t *testing.T) {
	onLinux(t)
	program := filepath.Join(t.TempDir(), "agent")
	goCommand(t, "build", "-o", program, "./agent")
	out, err := command(t, program).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == unavailable {
		t.Skipf("this host cannot run it: %s", out)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shown := strings.ReplaceAll(block(t, "embedding.md", "console", "$ cd examples && go run ./agent\n"), "python is primed and frozen", "PRIMED")
	got := regexp.MustCompile(`(python|bash) is primed and (frozen|ready)`).ReplaceAllString(string(out), "PRIMED")
	if got != shown {
		t.Errorf("it prints\n%s\nand is shown as\n%s", out, shown)
	}
}
