package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be aether itself, so that the tests drive the
// program as its users do: by arguments, streams, signals and exit status.
func TestMain(m *testing.M) {
	if os.Getenv("AETHER_TEST_AS_MAIN") != "" {
		main()
	}
	status := m.Run()
	if err := endDaemon(os.Interrupt); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	if err := os.RemoveAll(stateDir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// stateDir is shared by the tests, so that the host's image is made once.
var stateDir = filepath.Join(os.TempDir(), fmt.Sprintf("aether-cmd-test-%d-%d", os.Getuid(), os.Getpid()))

func aether(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	// Under the race detector every program would sleep for a second at its end.
	cmd.Env = append(os.Environ(), "AETHER_TEST_AS_MAIN=1", "AETHER_STATE_DIR="+stateDir, "GORACE=atexit_sleep_ms=0")
	return cmd
}

type outcome struct {
	stdout, stderr string
	status         int
}

func run(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	cmd := aether(t, append([]string{"run"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// TestRunIsForOneSandbox: a run makes nothing that is for many cells, as the group which their
// PID 1s share and in which a command would not be: it would see its own beside that.
func TestRunIsForOneSandbox(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root's cells share anything")
	}
	got := run(t, "", "--", "cat", "/proc/self/cgroup")
	if got.status != 0 || got.stdout == "" || strings.Contains(got.stdout, "/../") {
		t.Errorf("%+v", got)
	}
}

func TestRunIsTheCommandsOwn(t *testing.T) {
	for _, c := range []struct {
		name, stdin    string
		args           []string
		stdout, stderr string
		status         int
	}{
		{"output", "", []string{"--", "echo", "a b"}, "a b\n", "", 0},
		{"flags after the command", "", []string{"echo", "--json", "-n"}, "--json -n\n", "", 0},
		{"error output", "", []string{"--", "sh", "-c", "echo x >&2"}, "", "x\n", 0},
		{"exit status", "", []string{"--", "sh", "-c", "exit 42"}, "", "", 42},
		{"signal", "", []string{"--", "sh", "-c", "kill -TERM $$"}, "", "", 143},
		{"input", "abc", []string{"-i", "--", "cat"}, "abc", "", 0},
		{"input only if asked for", "abc", []string{"--", "cat"}, "", "", 0},
		{"environment", "", []string{"-e", "A=b c", "--", "sh", "-c", "echo $A $HOME"}, "b c /home/user\n", "", 0},
		{"working directory", "", []string{"-w", "/usr", "--", "pwd"}, "/usr\n", "", 0},
		{"user", "", []string{"--", "sh", "-c", "id -u; id -un"}, "1000\nuser\n", "", 0},
		{"python", "", []string{"--", "python3", "-c", "print(6*7)"}, "42\n", "", 0},
		{"pid 1 is not the command", "", []string{"--", "sh", "-c", "echo $$"}, "2\n", "", 0},
		{"no such command", "", []string{"--", "no-such-command"}, "", "not in PATH", 127},
		{"not executable", "", []string{"--", "/etc/passwd"}, "", "cannot be run", 126},
		{"timeout", "", []string{"--timeout", "200ms", "--", "sleep", "1000"}, "", "--timeout", 124},
		{"a timeout that is not reached", "", []string{"--timeout", "10m", "--", "echo", "x"}, "x\n", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if len(c.args) > 1 && c.args[1] == "python3" {
				needs(t, "/usr/bin/python3")
			}
			got := run(t, c.stdin, c.args...)
			if got.stdout != c.stdout || got.status != c.status || !strings.Contains(got.stderr, c.stderr) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func needs(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Skipf("this host has no %s", path)
	}
}

func TestRunRefusesBadInput(t *testing.T) {
	for _, c := range []struct {
		args   []string
		names  string
		status int
	}{
		{[]string{}, "command", 2},
		{[]string{"--memory", "lots", "--", "true"}, "--memory", 2},
		{[]string{"--memory", "1K", "--", "true"}, "memory", 2},
		{[]string{"--disk", "0", "--", "true"}, "--disk", 2},
		{[]string{"--disk-read-rate", "fast", "--", "true"}, "--disk-read-rate", 2},
		{[]string{"--disk-write-rate", "1K", "--", "true"}, "disk_write_rate", 2},
		{[]string{"--cpus", "-1", "--", "true"}, "cpus", 2},
		{[]string{"--pids", "-5", "--", "true"}, "processes", 2},
		{[]string{"--env", "novalue", "--", "true"}, "--env", 2},
		{[]string{"--mount", "/tmp", "--", "true"}, "--mount", 2},
		{[]string{"--mount", "/no/such/dir:/x", "--", "true"}, "mounts", 2},
		{[]string{"--workdir", "relative", "--", "true"}, "workdir", 2},
		{[]string{"--workdir", "/no/such/dir", "--", "true"}, "cwd", 2},
		{[]string{"--net", "some", "--", "true"}, "--net", 2},
		{[]string{"--isolation", "strong", "--", "true"}, "isolation", 2},
		{[]string{"--driver", "cel", "--", "true"}, "did you mean cell?", 2},
		{[]string{"--isolation", "hardware", "--driver", "cell", "--", "true"}, "--driver", 2},
		{[]string{"--isolation", "hardware", "--", "true"}, "hardware", 125},
		{[]string{"--image", "/no/such/image", "--", "true"}, "image", 125},
		{[]string{"-t", "--", "true"}, "-t", 2},
	} {
		got := run(t, "", c.args...)
		if got.status != c.status || got.stdout != "" || !strings.Contains(got.stderr, c.names) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("run %q: %+v", c.args, got)
		}
	}
}

func TestRunJSON(t *testing.T) {
	got := run(t, "", "--json", "--", "sh", "-c", `printf 'a\377b'; echo err >&2; exit 3`)
	var answer struct {
		Driver, Boundary string
		Exit             int
		Times            map[string]float64
		Stdout           struct{ Base64 string }
		Stderr           struct{ Text string }
	}
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil {
		t.Fatalf("%v in %s", err, got.stdout)
	}
	if got.status != 3 || answer.Exit != 3 || answer.Driver != "cell" || answer.Boundary != "process" ||
		answer.Stdout.Base64 != "Yf9i" || answer.Stderr.Text != "err\n" {
		t.Errorf("status %d, answer %+v", got.status, answer)
	}
	times := answer.Times
	if !(0 < times["created_ms"] && times["created_ms"] <= times["first_byte_ms"] && times["first_byte_ms"] <= times["exit_ms"]) {
		t.Errorf("times %v are not in order", times)
	}
}

func TestRunReportsTheMemoryLimit(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("memory limits need a cgroup, which an ordinary user has only where one is delegated")
	}
	needs(t, "/usr/bin/python3")
	got := run(t, "", "--memory", "32M", "--", "python3", "-c", "b'x' * (256 << 20)")
	if got.status != 137 || !strings.Contains(got.stderr, "memory limit") {
		t.Errorf("got %+v", got)
	}
}

func TestRunReportsAFullDisk(t *testing.T) {
	got := run(t, "", "--disk", "1M", "--", "sh", "-c", "head -c 4M /dev/zero > /tmp/big")
	if got.status == 0 || !strings.Contains(got.stderr, "No space left") || !strings.Contains(got.stderr, "disk limit (--disk)") {
		t.Errorf("got %+v", got)
	}
}

func TestRunReportsTheProcessLimit(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("refused processes are counted by a cgroup, which an ordinary user has only where one is delegated")
	}
	got := run(t, "", "--pids", "8", "--json", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 > /dev/null 2>&1 & done")
	if !strings.Contains(got.stdout, `"limits_reached": [
    "processes"
  ]`) {
		t.Errorf("got %+v", got)
	}
}

func TestRunWarnsOfTheHostsNetwork(t *testing.T) {
	got := run(t, "", "--net", "host", "--", "true")
	if got.status != 0 || !strings.Contains(got.stderr, "--net host") {
		t.Errorf("got %+v", got)
	}
}

func TestRunExplainsEverySystemCall(t *testing.T) {
	got := run(t, "", "--explain", "--", "/bin/true")
	for _, want := range []string{"pivot_root", "seccomp(1", "landlock_restrict_self", "capset", "# system call filter", `execve("/bin/true"`} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(got.stdout, "syscall_") {
		t.Error("a system call is printed by its number")
	}
}

func TestRunPassesSignalsOn(t *testing.T) {
	cmd := aether(t, "run", "--", "sh", "-c", "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	expect(t, out, "ready\n")
	cmd.Process.Signal(syscall.SIGINT)
	expect(t, out, "caught\n")
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 5 {
		t.Errorf("status %d", code)
	}
}

func TestASecondInterruptEndsEverything(t *testing.T) {
	cmd := aether(t, "run", "--", "sh", "-c", "trap '' INT; echo ready; while :; do sleep 0.05; done")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	expect(t, out, "ready\n")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	// Two that come before the first is taken are one, so they go on.
	for end := time.Now().Add(patience); time.Now().Before(end); {
		select {
		case <-ended:
		case <-time.After(50 * time.Millisecond):
			cmd.Process.Signal(syscall.SIGINT)
			continue
		}
		break
	}
	cmd.Process.Kill()
	<-ended
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("status %d", code)
	}
}

func expect(t *testing.T, from interface{ Read([]byte) (int, error) }, want string) {
	t.Helper()
	buf := make([]byte, len(want))
	for got := 0; got < len(want); {
		n, err := from.Read(buf[got:])
		if err != nil {
			t.Fatalf("%v after %q", err, buf[:got])
		}
		got += n
	}
	if string(buf) != want {
		t.Fatalf("got %q, not %q", buf, want)
	}
}

func TestRunOnATerminal(t *testing.T) {
	script, err := exec.LookPath("script")
	if err != nil {
		t.Skip("this host has no script(1) to make a terminal with")
	}
	self := aether(t, "run", "-it", "--", "sh", "-c", "tty; stty size; read x; echo got $x; exit 6")
	quoted := make([]string, len(self.Args))
	for i, arg := range self.Args {
		quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	cmd := exec.Command(script, "-qec", "stty rows 33 cols 101; "+strings.Join(quoted, " "), "/dev/null")
	cmd.Env = self.Env
	cmd.Stdin = strings.NewReader("hello\n")
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"/dev/pts/0", "33 101", "got hello"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in %q (%v)", want, out, err)
		}
	}
	if code := cmd.ProcessState.ExitCode(); code != 6 {
		t.Errorf("status %d", code)
	}
}
