package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"aether/internal/host/proctree"
)

const (
	// tailLines is how much is told of a step that failed.
	tailLines = 60
	// mostRefusal is what a reader takes in.
	mostRefusal = 600
	// commandTime is how long a command may take on a real machine.
	commandTime = 30 * time.Second
)

// turn is one step on one way, while it runs.
type turn struct {
	ctx      context.Context
	standing standing
	job      job
	pace     int
	console  io.Writer
	before   census
	script   strings.Builder // commands, and what they said
	tests    *tally
	failures []string // what failed tests said
	refusal  string   // the line that was expected
	report   string   // what there is to show though nothing failed
}

// answer is how a command ended.
type answer struct {
	code           int
	stdout, stderr string
}

// do runs a command from where the way stands. That it fails is an answer, not an
// error.
func (t *turn) do(argv ...string) (answer, error) {
	return t.within(time.Duration(t.pace)*commandTime, "", argv...)
}

func (t *turn) within(limit time.Duration, dir string, argv ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	shown := &echo{console: t.console}
	stdout, stderr := &kept{echo: shown}, &kept{echo: shown}
	cmd := t.standing.command(ctx, dir, argv)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	fmt.Fprintf(t.console, "%s$ %s\n", said, strings.Join(argv, " "))
	err := cmd.Run()
	a := answer{code: cmd.ProcessState.ExitCode(), stdout: stdout.text.String(), stderr: stderr.text.String()}
	fmt.Fprintf(&t.script, "$ %s\n%s%s[%d]\n", strings.Join(argv, " "), a.stdout, a.stderr, a.code)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return a, fmt.Errorf("%s took longer than %v", argv[0], limit)
	case err != nil && !errors.As(err, &exit):
		return a, err
	}
	return a, nil
}

// succeeds wants a command to end well, and its output to match a pattern.
func (t *turn) succeeds(pattern string, argv ...string) error {
	a, err := t.do(argv...)
	switch {
	case err != nil:
		return err
	case a.code != 0:
		return fmt.Errorf("%s ended with %d: %s", strings.Join(argv, " "), a.code, lastLines(a.stderr, 1))
	case !regexp.MustCompile(pattern).MatchString(a.stdout):
		return fmt.Errorf("%s printed %.80q, which is not like %s", strings.Join(argv, " "), a.stdout, pattern)
	}
	return nil
}

// areRefused wants every command to be.
func (t *turn) areRefused(code int, commands ...[]string) error {
	for _, argv := range commands {
		if err := t.isRefused(code, argv...); err != nil {
			return err
		}
	}
	return nil
}

// isRefused wants a command to be refused in one line, which the pattern of the job
// matches, and nothing on standard output.
func (t *turn) isRefused(code int, argv ...string) error {
	a, err := t.do(argv...)
	line := strings.TrimSuffix(a.stderr, "\n")
	switch {
	case err != nil:
		return err
	case a.code != code:
		return fmt.Errorf("%s ended with %d instead of %d", strings.Join(argv, " "), a.code, code)
	case a.stdout != "" || line == "" || strings.Contains(line, "\n") || len(line) > mostRefusal:
		return fmt.Errorf("%s is refused in other than one line of standard error, of %d bytes at most", strings.Join(argv, " "), mostRefusal)
	case !regexp.MustCompile(t.job.Refusal).MatchString(line):
		return fmt.Errorf("the refusal is not like %s: %s", t.job.Refusal, line)
	}
	t.refusal = line
	return nil
}

// output is what is told of a step that failed.
func (t *turn) output() string {
	if len(t.failures) > 0 {
		return clip(strings.Join(middleOut(t.failures, tailLines), "\n"), 16<<10)
	}
	return clip(lastLines(t.script.String(), tailLines), 16<<10)
}

// middleOut keeps the ends of a list: tests begin with the cause, or end with it.
func middleOut(lines []string, most int) []string {
	if len(lines) <= most {
		return lines
	}
	kept := append([]string(nil), lines[:most/2]...)
	kept = append(kept, fmt.Sprintf("... %d lines ...", len(lines)-most))
	return append(kept, lines[len(lines)-most/2:]...)
}

func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// stopAll makes the end of a command's time that of everything it started, and does
// not wait for those who keep its output open.
func stopAll(cmd *exec.Cmd) {
	cmd.SysProcAttr.Setpgid = true
	cmd.Cancel = func() error { return proctree.KillGroup(cmd.Process.Pid) }
	cmd.WaitDelay = 10 * time.Second
}
