package interpreter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"aether/guest"
	"aether/interpreter"
	"aether/sandbox"
)

// endless are calls that only an interrupt ends. They say "go" first.
var endless = []struct {
	language     interpreter.Language
	name, code   string
	errors, then string
	want         string
}{
	{interpreter.Python, "sleep", "print('go'); import time; time.sleep(600)", "KeyboardInterrupt", "x", "1"},
	{interpreter.Python, "loop", "print('go')\nwhile True: pass", "KeyboardInterrupt", "x", "1"},
	{interpreter.Python, "loop in C", "import re; print('go'); re.match('(a+)+b', 'a' * 60)", "KeyboardInterrupt", "x", "1"},
	{interpreter.Python, "child", "print('go'); import subprocess; subprocess.run(['sleep', '600'])", "KeyboardInterrupt", "x", "1"},
	{interpreter.Python, "await", "import asyncio; print('go'); await asyncio.sleep(600)", "KeyboardInterrupt", "await asyncio.sleep(0, x)", "1"},
	{interpreter.Python, "value", "print('go')\nclass A:\n  def __repr__(self):\n    while True: pass\nA()", "KeyboardInterrupt", "x", "1"},
	{interpreter.Python, "display", "print('go')\nwhile True: display('v' * 10000)", "KeyboardInterrupt", "x", "1"},
	{interpreter.Node, "loop", "console.log('go'); for (;;);", "Interrupt", "x", "1"},
	{interpreter.Node, "await", "console.log('go'); await new Promise(r => setTimeout(r, 600000))", "Interrupt", "x", "1"},
	{interpreter.Node, "child", "require('child_process').execSync('echo go; exec sleep 600', { stdio: 'inherit' })", "Interrupt", "x", "1"},
	{interpreter.Bash, "child", "sh -c 'echo go; exec sleep 600'; echo not here", "Interrupt", "echo $x", "1\n"},
	{interpreter.Bash, "loop", "echo go; while :; do :; done", "Interrupt", "echo $x", "1\n"},
	{interpreter.Bash, "pipe", "sleep 600 | sh -c 'echo go; exec cat'", "Interrupt", "echo $x", "1\n"},
}

func set(language interpreter.Language) string {
	return map[interpreter.Language]string{interpreter.Python: "x = 1", interpreter.Node: "x = 1", interpreter.Bash: "x=1"}[language]
}

// signs closes when a text has been written.
type signs struct {
	bytes.Buffer
	text string
	seen chan struct{}
}

func newSigns(text string) *signs { return &signs{text: text, seen: make(chan struct{})} }

func (s *signs) Write(data []byte) (int, error) {
	had := strings.Contains(s.String(), s.text)
	n, err := s.Buffer.Write(data)
	if !had && strings.Contains(s.String(), s.text) {
		close(s.seen)
	}
	return n, err
}

func wantState(t *testing.T, c *interpreter.Context, code, want string) {
	t.Helper()
	r := do(t, c, code)
	if got := r.Logs.Stdout + strings.TrimSuffix(text(r), "none"); got != want || r.Error != nil {
		t.Errorf("afterwards %s gives %q, want %q (%+v)", code, got, want, r.Error)
	}
}

func TestInterrupt(t *testing.T) {
	for _, e := range endless {
		t.Run(string(e.language)+" "+e.name, func(t *testing.T) {
			c := start(t, e.language)
			do(t, c, set(e.language))
			seen := newSigns("go\n")
			go func() {
				<-seen.seen
				if err := c.Interrupt(t.Context()); err != nil {
					t.Errorf("interrupt: %v", err)
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r, err := c.Run(ctx, e.code, interpreter.Handler{Stdout: seen})
			if err != nil {
				t.Fatal(err)
			}
			wantError(t, r, e.errors, "")
			wantState(t, c, e.then, e.want)
		})
	}
}

func TestDeadlineInterruptsAndKeepsState(t *testing.T) {
	for _, e := range endless {
		if e.name != "loop" {
			continue
		}
		t.Run(string(e.language), func(t *testing.T) {
			c := start(t, e.language)
			do(t, c, set(e.language))
			var r interpreter.Result
			var err error
			// It is given more time until the code had begun before that was over.
			for limit := 200 * time.Millisecond; r.Logs.Stdout == "" && limit < patience; limit *= 3 {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				r, err = c.Run(ctx, e.code, interpreter.Handler{})
				cancel()
			}
			if sandbox.ClassOf(err) != sandbox.Timeout || !errors.Is(err, context.DeadlineExceeded) || r.Logs.Stdout != "go\n" {
				t.Errorf("%v, %+v", err, r)
			}
			wantError(t, r, e.errors, "")
			wantState(t, c, e.then, e.want)
		})
	}
}

// TestGraceOfAHostThatStoodStill: who cleans up within its grace is not killed where all of this
// program stood still meanwhile for longer than that.
func TestGraceOfAHostThatStoodStill(t *testing.T) {
	c := startIn(t, newClient(t, sandbox.Spec{}), interpreter.Python, interpreter.Options{Grace: interpreter.DefaultGrace})
	do(t, c, "x = 1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := newSigns("go\n")
	still := exec.Command("sh", "-c", fmt.Sprintf("sleep 0.3; kill -STOP %d; sleep 4; kill -CONT %[1]d", os.Getpid()))
	go func() {
		<-begun.seen
		if err := still.Start(); err != nil {
			t.Error(err)
		}
		cancel()
	}()
	r, err := c.Run(ctx, "import time\nprint('go', flush=True)\ntry: time.sleep(600)\nexcept KeyboardInterrupt: time.sleep(1); raise", interpreter.Handler{Stdout: begun})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", r, err)
	}
	if err := still.Wait(); err != nil {
		t.Error(err)
	}
	wantError(t, r, "KeyboardInterrupt", "")
	wantState(t, c, "x", "1")
}

// runUntil runs code that heeds no interrupt in an interpreter of its own, with a deadline.
// It tries again with more time until what is wanted had happened before the deadline.
func runUntil(t *testing.T, client *guest.Client, language interpreter.Language, code string, limit time.Duration, want func(interpreter.Result) bool) (*interpreter.Context, interpreter.Result, error) {
	t.Helper()
	for ; ; limit *= 3 {
		c := startIn(t, client, language, interpreter.Options{Grace: 200 * time.Millisecond})
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		began := time.Now()
		r, err := c.Run(ctx, code, interpreter.Handler{})
		cancel()
		if took := time.Since(began); took > limit+patience {
			t.Errorf("it took %v", took)
		}
		if want(r) || limit > patience {
			return c, r, err
		}
	}
}

func TestDeadlineKillsWhatDoesNotHeed(t *testing.T) {
	for language, code := range map[interpreter.Language]string{
		interpreter.Python: "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print('go')\nwhile True: pass",
		interpreter.Node:   "await 1; console.log('go'); for (;;);",
		interpreter.Bash:   "trap '' INT; echo go; while :; do :; done",
	} {
		t.Run(string(language), func(t *testing.T) {
			client := newClient(t, sandbox.Spec{})
			other := startIn(t, client, interpreter.Bash, interpreter.Options{})
			c, _, err := runUntil(t, client, language, code, 100*time.Millisecond, func(r interpreter.Result) bool { return r.Logs.Stdout == "go\n" })
			ended := wantEnded(t, err, sandbox.Timeout)
			if ended.Status == nil || ended.Status.Signal != 9 {
				t.Errorf("it ended with %+v", ended)
			}
			_, err = c.Run(t.Context(), "1", interpreter.Handler{})
			wantEnded(t, err, sandbox.NotFound)
			if r := do(t, other, "echo lives"); r.Logs.Stdout != "lives\n" {
				t.Errorf("another context: %+v", r)
			}
		})
	}
}

func TestCancelIsNotADeadline(t *testing.T) {
	c := start(t, interpreter.Python)
	ctx, cancel := context.WithCancel(t.Context())
	seen := newSigns("go")
	go func() { <-seen.seen; cancel() }()
	if _, err := c.Run(ctx, "print('go')\nwhile True: pass", interpreter.Handler{Stdout: seen}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantText(t, c, "1", "1")
}

func TestInterruptOfNothing(t *testing.T) {
	for _, language := range languages {
		c := start(t, language)
		for range 3 {
			if err := c.Interrupt(t.Context()); err != nil {
				t.Error(err)
			}
		}
		do(t, c, set(language))
	}
}

// TestInterruptsNeverReachTheNextCall interrupts calls that end at that moment.
func TestInterruptsNeverReachTheNextCall(t *testing.T) {
	for _, e := range []struct {
		language   interpreter.Language
		name, code string
	}{
		{interpreter.Python, "sleep", "import time; time.sleep(0.02)"},
		{interpreter.Node, "await", "await new Promise(r => setTimeout(r, 40))"},
		{interpreter.Node, "loop", "for (const end = Date.now() + 40; Date.now() < end;);"},
		{interpreter.Bash, "child", "sleep 0.01"},
	} {
		language, code := e.language, e.code
		t.Run(string(language)+" "+e.name, func(t *testing.T) {
			c := start(t, language)
			do(t, c, set(language))
			for range 10 {
				done := make(chan error)
				go func() { done <- c.Interrupt(t.Context()) }()
				do(t, c, code)
				if r := do(t, c, set(language)); r.Error != nil {
					t.Errorf("the next call was interrupted: %+v", r.Error)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestOwnInterruptHandlersAreKept(t *testing.T) {
	c := start(t, interpreter.Python)
	do(t, c, "import signal, time\ncaught = []\nsignal.signal(signal.SIGINT, lambda *a: caught.append(1))")
	seen := newSigns("go")
	go func() {
		<-seen.seen
		c.Interrupt(t.Context())
	}()
	r, err := c.Run(t.Context(), "print('go')\nwhile not caught: time.sleep(0.01)\n'ended by itself'", interpreter.Handler{Stdout: seen})
	if err != nil || r.Error != nil || text(r) != "'ended by itself'" {
		t.Errorf("%v, %+v", err, r)
	}
}

func TestCallsWaitForTheirTurn(t *testing.T) {
	client := newClient(t, sandbox.Spec{})
	c := startIn(t, client, interpreter.Python, interpreter.Options{})
	seen := newSigns("go")
	first := make(chan error)
	go func() {
		_, err := c.Run(t.Context(), "print('go')\n"+untilTold+"x = 'first'", interpreter.Handler{Stdout: seen})
		first <- err
	}()
	<-seen.seen
	impatient, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Run(impatient, "x = 'impatient'", interpreter.Handler{})
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != sandbox.Timeout || !e.Retry {
		t.Errorf("a call that gave up waiting: %v", err)
	}
	write(t, client, "/tmp/go", "")
	wantText(t, c, "x", "'first'")
	if err := <-first; err != nil {
		t.Errorf("the first call: %v", err)
	}
}
