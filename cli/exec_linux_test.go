package cli

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestExecIsTheCommandsOwn: output, status and input are the command's.
func TestExecIsTheCommandsOwn(t *testing.T) {
	newHome(t)
	id, user := create(t), strconv.Itoa(os.Getuid()) // which is all that an ordinary user's cells have
	for _, c := range []struct {
		args           []string
		stdout, stderr string
		status         int
	}{
		{[]string{id, "--", "sh", "-c", "echo out; echo err >&2; exit 3"}, "out\n", "err\n", 3},
		{[]string{id, "echo", "--", "-x"}, "-- -x\n", "", 0},
		{[]string{id, "--", "sh", "-c", "kill -9 $$"}, "", "", 137},
		{[]string{id, "--", "no-such-program"}, "", "no-such-program", 127},
		{[]string{id, "--", "/etc/passwd"}, "", "/etc/passwd", 126},
		{[]string{"--timeout", "200ms", id, "--", "sleep", "60"}, "", "after 200ms (--timeout)", 124},
		{[]string{"-e", "X=1", "-w", "/tmp", id, "--", "sh", "-c", "echo $X; pwd"}, "1\n/tmp\n", "", 0},
		{[]string{"-u", user, id, "--", "id", "-u"}, user + "\n", "", 0},
	} {
		got := run(t, nil, append([]string{"exec"}, c.args...)...)
		if got.status != c.status || got.stdout != c.stdout || !strings.Contains(got.stderr, c.stderr) || c.stderr == "" && got.stderr != "" {
			t.Errorf("exec %q: %+v", c.args[1:], got)
		}
	}
	var stdout, stderr bytes.Buffer
	if status := Main(t.Context(), []string{"exec", "-i", id, "--", "tr", "a-z", "A-Z"}, strings.NewReader("hello\n"), &stdout, &stderr, nil); status != 0 || stdout.String() != "HELLO\n" {
		t.Errorf("status %d, %q, %q", status, stdout.String(), stderr.String())
	}
	got := run(t, nil, "exec", "--json", id, "--", "sh", "-c", "echo out; kill -TERM $$")
	if result := decode[execResult](t, got.stdout); got.status != 143 || result.Exit != 143 || result.Signal != "terminated" || result.Stdout.Text != "out\n" {
		t.Errorf("%+v", got)
	}
}

// TestExecStreams: output comes while the command waits for input, and any amount of it.
func TestExecStreams(t *testing.T) {
	newHome(t)
	id := create(t)
	cmd := program("exec", "-i", id, "--", "sh", "-c", "echo first; read line; echo $line; head -c 67108864 /dev/zero")
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "first\n" {
		t.Fatalf("%q, %v", line, err)
	}
	_, err = io.WriteString(in, "second\n")
	check(t, err)
	if line, err := lines.ReadString('\n'); line != "second\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if n, err := io.Copy(io.Discard, lines); n != 64<<20 || err != nil {
		t.Errorf("%d bytes came, %v", n, err)
	}
	check(t, cmd.Wait())
}

// TestExecPassesSignalsOn: the first to the command; the second one kills it.
func TestExecPassesSignalsOn(t *testing.T) {
	newHome(t)
	id := create(t)
	start := func(script string) (*bufio.Reader, func() int, func(syscall.Signal)) {
		cmd := program("exec", id, "--", "sh", "-c", script)
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); line != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
		wait := func() int { _ = cmd.Wait(); return cmd.ProcessState.ExitCode() }
		return lines, wait, func(sig syscall.Signal) { check(t, cmd.Process.Signal(sig)) }
	}
	_, wait, send := start(`trap "exit 7" TERM; echo ready; while :; do sleep 0.05; done`)
	if send(syscall.SIGTERM); wait() != 7 {
		t.Error("the command was not told")
	}
	lines, wait, send := start(`trap "echo no" INT; echo ready; while :; do sleep 0.05; done`)
	send(syscall.SIGINT)
	if line, err := lines.ReadString('\n'); line != "no\n" {
		t.Errorf("%q, %v", line, err)
	}
	if send(syscall.SIGINT); wait() != 130 {
		t.Error("the command was not killed")
	}
	eventually(t, "the end of the command", func() bool { return strings.Contains(run(t, nil, "logs", id).stderr, "no command runs") })
}

// TestLogs of a command that nobody follows: again and again, and then by following.
func TestLogs(t *testing.T) {
	newHome(t)
	id := create(t)
	pid := strings.TrimSpace(succeed(t, "exec", "--detach", id, "--", "sh", "-c", "echo one; echo two >&2; while ! test -e /tmp/go; do sleep 0.05; done; echo three"))
	number, err := strconv.Atoi(pid)
	check(t, err)
	for range 2 {
		eventually(t, "its output", func() bool {
			got := run(t, nil, "logs", id, pid)
			return got == outcome{"one\n", "two\n", 0}
		})
	}
	list := decode[[]processLog](t, succeed(t, "logs", "--json", id))
	if len(list) != 1 || list[0].Process != number || list[0].Command[0] != "sh" || list[0].Stdout.Text != "one\n" || list[0].Stderr.Text != "two\n" || list[0].Exit != nil {
		t.Errorf("%+v", list)
	}
	if got := run(t, nil, "logs", id); !strings.HasPrefix(got.stdout, "==> "+pid+": sh -c echo one;") || !strings.HasSuffix(got.stdout, "<==\none\n") {
		t.Errorf("%+v", got)
	}
	succeed(t, "exec", id, "--", "touch", "/tmp/go")
	if got := run(t, nil, "logs", "--follow", id, pid); got != (outcome{"one\nthree\n", "two\n", 0}) {
		t.Errorf("%+v", got)
	}
	if got := run(t, nil, "logs", id, pid); got != (outcome{"", "", 0}) {
		t.Errorf("%+v", got)
	}
	if got := run(t, nil, "logs", "--console", id); got.status != 1 || !strings.Contains(got.stderr, "sandboxes of cell have no console") {
		t.Errorf("%+v", got)
	}
}
