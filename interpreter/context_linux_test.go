package interpreter_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/guest"
	"aether/interpreter"
	"aether/sandbox"
)

func TestOptions(t *testing.T) {
	client := newClient(t, sandbox.Spec{})
	for language, code := range map[interpreter.Language]string{
		interpreter.Python: "import os; print(os.getcwd(), os.environ['A'], os.getpid() == os.getpgrp())",
		interpreter.Node:   "console.log(process.cwd(), process.env.A, true)",
		interpreter.Bash:   "echo $PWD $A True",
	} {
		c := startIn(t, client, language, interpreter.Options{WorkDir: "/tmp", Env: map[string]string{"A": "b c"}})
		if r := do(t, c, code); !strings.EqualFold(r.Logs.Stdout, "/tmp b c true\n") {
			t.Errorf("%s: %q", language, r.Logs.Stdout)
		}
	}
}

func TestStartRefuses(t *testing.T) {
	client := newClient(t, sandbox.Spec{})
	for _, c := range []struct {
		name     string
		language interpreter.Language
		opts     interpreter.Options
		want     sandbox.Class
	}{
		{"no language", "", interpreter.Options{}, sandbox.Invalid},
		{"a language nobody knows", "cobol", interpreter.Options{}, sandbox.Invalid},
		{"a negative limit", interpreter.Bash, interpreter.Options{Limits: interpreter.Limits{Values: -1}}, sandbox.Invalid},
		{"a negative grace", interpreter.Bash, interpreter.Options{Grace: -1}, sandbox.Invalid},
		{"no such directory", interpreter.Bash, interpreter.Options{WorkDir: "/no/such"}, sandbox.Invalid},
		{"a bad variable", interpreter.Bash, interpreter.Options{Env: map[string]string{"A=B": ""}}, sandbox.Invalid},
		{"no python", interpreter.Python, interpreter.Options{Env: map[string]string{"PATH": "/nowhere"}}, sandbox.NotFound},
		{"no node", interpreter.Node, interpreter.Options{Env: map[string]string{"PATH": "/nowhere"}}, sandbox.NotFound},
		{"a python that fails", interpreter.Python, interpreter.Options{Env: map[string]string{"PYTHONHOME": "/nowhere"}}, sandbox.NotFound},
	} {
		if _, err := interpreter.Start(t.Context(), client, c.language, c.opts); sandbox.ClassOf(err) != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	wantAlone(t, client)
}

func TestStartIsBounded(t *testing.T) {
	client := newClient(t, sandbox.Spec{})
	write(t, client, "/tmp/bin/python3", "#!/bin/sh\nexec sleep 600\n")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := interpreter.Start(ctx, client, interpreter.Python, interpreter.Options{Env: map[string]string{"PATH": "/tmp/bin:/usr/bin:/bin"}, Grace: 100 * time.Millisecond})
	if sandbox.ClassOf(err) != sandbox.Timeout {
		t.Errorf("got %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := interpreter.Start(over, client, interpreter.Bash, interpreter.Options{}); err == nil {
		t.Error("it starts although nobody wants it")
	}
	wantAlone(t, client)
}

func write(t *testing.T, client *guest.Client, path, contents string) {
	t.Helper()
	if err := client.Write(t.Context(), path, strings.NewReader(contents)); err != nil {
		t.Fatal(err)
	}
	running, err := client.Start(t.Context(), guest.Cmd{Path: "chmod", Args: []string{"+x", path}})
	if err == nil {
		_, err = running.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// untilTold is code of Python that goes on when /tmp/go is there.
const untilTold = "import os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\n"

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no sign of %s", what)
		}
	}
}

// wantAlone checks that no process is left in a sandbox.
func wantAlone(t *testing.T, client *guest.Client) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		list, err := client.Processes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left: %v", list)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestManyContextsInOneCell(t *testing.T) {
	client := newClient(t, sandbox.Spec{})
	var all sync.WaitGroup
	for i := range 9 {
		c := startIn(t, client, languages[i%3], interpreter.Options{})
		code := map[interpreter.Language]string{interpreter.Python: "x = %d", interpreter.Node: "var x = %d", interpreter.Bash: "x=%d"}[c.Language()]
		show := map[interpreter.Language]string{interpreter.Python: "print(x)", interpreter.Node: "console.log(x)", interpreter.Bash: "echo $x"}[c.Language()]
		all.Go(func() {
			for n := range 5 {
				want := i*10 + n
				if r, err := c.Run(t.Context(), fmt.Sprintf(code, want), interpreter.Handler{}); err != nil || r.Error != nil {
					t.Errorf("%v, %+v", err, r.Error)
				}
				if r, err := c.Run(t.Context(), show, interpreter.Handler{}); err != nil || r.Logs.Stdout != fmt.Sprintln(want) {
					t.Errorf("%v: %q, want %d", err, r.Logs.Stdout, want)
				}
			}
		})
	}
	all.Wait()
}

func TestManyCallersOfOneContext(t *testing.T) {
	c := start(t, interpreter.Python)
	do(t, c, "n = 0")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			r, err := c.Run(t.Context(), "print(n); m = n; n = m + 1; n", interpreter.Handler{})
			if err != nil || r.Main() == nil || r.Logs.Stdout == text(r)+"\n" {
				t.Errorf("%v, %+v", err, r)
			}
		})
	}
	all.Wait()
	wantText(t, c, "n", "20")
}

func TestBackgroundOutputIsKeptForTheNextCall(t *testing.T) {
	for language, code := range map[interpreter.Language]string{
		interpreter.Python: "import os, threading, time\ndef late():\n  while not os.path.exists('/tmp/go'): time.sleep(0.01)\n  print('late')\n  display('lost')\n  open('/tmp/late', 'w').close()\nt = threading.Thread(target=late); t.start()",
		interpreter.Node:   "const fs = require('fs'), timer = setInterval(() => { if (!fs.existsSync('/tmp/go')) return; clearInterval(timer); console.log('late'); fs.writeFileSync('/tmp/late', '') }, 10); 0",
		interpreter.Bash:   "(until [ -e /tmp/go ]; do sleep 0.01; done; echo late; echo > /tmp/late) & disown",
	} {
		t.Run(string(language), func(t *testing.T) {
			client := newClient(t, sandbox.Spec{})
			c := startIn(t, client, language, interpreter.Options{})
			do(t, c, code)
			write(t, client, "/tmp/go", "") // and what waits for it comes after that call
			waitFor(t, "the late output", func() bool { _, err := client.Stat(t.Context(), "/tmp/late"); return err == nil })
			code := map[interpreter.Language]string{interpreter.Python: "print('now')", interpreter.Node: "console.log('now')", interpreter.Bash: "echo now"}[language]
			if r := do(t, c, code); r.Before.Stdout != "late\n" || r.Logs.Stdout != "now\n" || len(r.Values) != 0 {
				t.Errorf("%+v", r)
			}
			if r := do(t, c, code); r.Before.Stdout != "" {
				t.Errorf("it is given again: %+v", r)
			}
		})
	}
}

func TestFloodBetweenCallsIsBounded(t *testing.T) {
	c := start(t, interpreter.Bash)
	do(t, c, "yes & disown")
	waitFor(t, "a flood", func() bool {
		time.Sleep(300 * time.Millisecond)
		kept := len(do(t, c, ":").Before.Stdout)
		if kept > 64<<10 {
			t.Errorf("%d bytes are kept", kept)
		}
		return kept > 0
	})
	do(t, c, "kill %1 2>/dev/null || pkill yes")
}

// TestNodeLivesBetweenCalls: servers and timers go on while nobody calls.
func TestNodeLivesBetweenCalls(t *testing.T) {
	c := start(t, interpreter.Node)
	do(t, c, "let n = 0; const timer = setInterval(() => n++, 5); 0")
	waitFor(t, "its timers", func() bool { return text(do(t, c, "n > 10")) == "true" })
	do(t, c, "clearInterval(timer); const before = n")
	wantText(t, c, "await new Promise(r => setTimeout(r, 30)); n === before", "true")
	if r := do(t, c, "setTimeout(() => { throw new Error('in vain') }, 1); Promise.reject(new Error('nobody cares')); await new Promise(r => setTimeout(r, 50)); 1"); text(r) != "1" ||
		!strings.Contains(r.Logs.Stderr, "in vain") || !strings.Contains(r.Logs.Stderr, "nobody cares") {
		t.Errorf("%+v", r)
	}
}

func TestClose(t *testing.T) {
	for language, code := range map[interpreter.Language]string{
		interpreter.Python: "import atexit, subprocess\natexit.register(lambda: open('/tmp/bye', 'w').close())\nsubprocess.Popen(['sleep', '600'])",
		interpreter.Node:   "process.on('exit', () => require('fs').writeFileSync('/tmp/bye', '')); require('child_process').spawn('sleep', ['600'], {stdio: 'inherit'})",
		interpreter.Bash:   "trap 'touch /tmp/bye' EXIT; sleep 600 &",
	} {
		t.Run(string(language), func(t *testing.T) {
			client := newClient(t, sandbox.Spec{})
			c := startIn(t, client, language, interpreter.Options{})
			do(t, c, code)
			for range 2 {
				if err := c.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if _, err := client.Stat(t.Context(), "/tmp/bye"); err != nil {
				t.Errorf("its exit handlers did not run: %v", err)
			}
			_, err := c.Run(t.Context(), "1", interpreter.Handler{})
			wantEnded(t, err, sandbox.NotFound)
			wantAlone(t, client)
		})
	}
}

func TestCloseOfABusyContext(t *testing.T) {
	client := newClient(t, sandbox.Spec{})
	c := startIn(t, client, interpreter.Bash, interpreter.Options{})
	seen := newSigns("go")
	answer := make(chan error)
	go func() {
		_, err := c.Run(t.Context(), "echo go; sleep 600", interpreter.Handler{Stdout: seen})
		answer <- err
	}()
	<-seen.seen
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	wantEnded(t, <-answer, sandbox.NotFound)
	wantAlone(t, client)
}

// TestCloseDoesNotWaitForAHandler: a reader that hangs holds up its own call only.
func TestCloseDoesNotWaitForAHandler(t *testing.T) {
	c := start(t, interpreter.Bash)
	stuck := stuckWriter{make(chan struct{}), make(chan struct{})}
	answer := make(chan error)
	go func() {
		_, err := c.Run(t.Context(), "yes", interpreter.Handler{Stdout: &stuck})
		answer <- err
	}()
	<-stuck.called
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	close(stuck.release)
	if err := <-answer; err == nil {
		t.Error("the call is answered")
	}
}

type stuckWriter struct{ called, release chan struct{} }

func (s *stuckWriter) Write(data []byte) (int, error) {
	select {
	case <-s.release:
	default:
		close(s.called)
		<-s.release
	}
	return len(data), nil
}

func TestAttach(t *testing.T) {
	for _, language := range languages {
		t.Run(string(language), func(t *testing.T) {
			client := newClient(t, sandbox.Spec{})
			c := startIn(t, client, language, interpreter.Options{})
			do(t, c, set(language))
			handle := c.Handle()
			c.Detach()
			_, err := c.Run(t.Context(), "1", interpreter.Handler{})
			wantEnded(t, err, sandbox.Conflict)
			again, err := interpreter.Attach(t.Context(), client, handle, interpreter.Options{})
			if err != nil {
				t.Fatal(err)
			}
			show := map[interpreter.Language]string{interpreter.Python: "print(x)", interpreter.Node: "console.log(x)", interpreter.Bash: "echo $x"}[language]
			if r := do(t, again, show); r.Logs.Stdout != "1\n" || r.Count != 2 {
				t.Errorf("%+v", r)
			}
			if err := again.Close(t.Context()); err != nil {
				t.Error(err)
			}
			_, err = interpreter.Attach(t.Context(), client, handle, interpreter.Options{})
			if err == nil {
				t.Error("an interpreter that has ended is attached to")
			}
		})
	}
}

func TestAttachLeavesTheBusyAlone(t *testing.T) {
	client := newClient(t, sandbox.Spec{})
	c := startIn(t, client, interpreter.Python, interpreter.Options{})
	seen := newSigns("go")
	answer := make(chan error)
	go func() {
		r, err := c.Run(t.Context(), "print('go')\n"+untilTold, interpreter.Handler{Stdout: seen})
		if r.Error != nil {
			err = errors.New(r.Error.Name)
		}
		answer <- err
	}()
	<-seen.seen
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := interpreter.Attach(ctx, client, c.Handle(), interpreter.Options{}); sandbox.ClassOf(err) != sandbox.Timeout {
		t.Errorf("got %v", err)
	}
	write(t, client, "/tmp/go", "")
	if err := <-answer; err != nil {
		t.Errorf("the call under way: %v", err)
	}
	wantText(t, c, "1", "1")
}

func TestAttachRefuses(t *testing.T) {
	client := newClient(t, sandbox.Spec{})
	key := strings.Repeat("a", 32)
	for _, c := range []struct {
		handle interpreter.Handle
		want   sandbox.Class
	}{
		{interpreter.Handle{}, sandbox.Invalid},
		{interpreter.Handle{PID: 7, Language: interpreter.Bash, Key: "short"}, sandbox.Invalid},
		{interpreter.Handle{PID: 7, Language: interpreter.Bash, Key: strings.ToUpper(key)}, sandbox.Invalid},
		{interpreter.Handle{PID: -1, Language: interpreter.Bash, Key: key}, sandbox.Invalid},
		{interpreter.Handle{PID: 4000, Language: interpreter.Bash, Key: key}, sandbox.NotFound},
	} {
		if _, err := interpreter.Attach(t.Context(), client, c.handle, interpreter.Options{}); sandbox.ClassOf(err) != c.want {
			t.Errorf("%+v: %v, want %v", c.handle, err, c.want)
		}
	}
}

// TestIdleInterpretersBlockInOneRead is what a live fork relies on.
func TestIdleInterpretersBlockInOneRead(t *testing.T) {
	for language, fd := range map[interpreter.Language]string{interpreter.Python: "200", interpreter.Node: "9", interpreter.Bash: "0"} {
		t.Run(string(language), func(t *testing.T) {
			client := newClient(t, sandbox.Spec{})
			c := startIn(t, client, language, interpreter.Options{})
			do(t, c, map[interpreter.Language]string{interpreter.Python: "print(1)", interpreter.Node: "await 1; console.log(1)", interpreter.Bash: "echo 1 | cat"}[language])
			b := startIn(t, client, interpreter.Bash, interpreter.Options{})
			pid := c.Handle().PID
			r := do(t, b, fmt.Sprintf("cd /proc/%d; ls task | wc -l; cat task/%d/children; echo; ls -l fd | grep -c socket; sleep 0.1; cat wchan; echo; ls fd; readlink fd/%s", pid, pid, fd))
			lines := strings.Split(r.Logs.Stdout, "\n")
			if language != interpreter.Node && lines[0] != "1" {
				t.Errorf("it has %s threads", lines[0])
			}
			if lines[1] != "" || lines[2] != "0" || !slices.Contains([]string{"pipe_read", "anon_pipe_read", "pipe_wait", "0"}, lines[3]) {
				t.Errorf("it has children or sockets, or waits elsewhere: %q", lines)
			}
		})
	}
}

func TestReseed(t *testing.T) {
	for _, c := range []struct {
		language       interpreter.Language
		prepare, draw  string
		reseeded, kept string
	}{
		{interpreter.Python, "import random, tempfile, uuid, ssl\nrandom.seed(1); tempfile.gettempdir()", "random.random()", "random ssl (OpenSSL) tempfile uuid", "hash randomization"},
		{interpreter.Node, "0", "Math.random()", "Math.random", "crypto"},
		{interpreter.Bash, "RANDOM=1", "echo $RANDOM$RANDOM$RANDOM", "RANDOM", ""},
	} {
		t.Run(string(c.language), func(t *testing.T) {
			x := start(t, c.language)
			seen := map[string]bool{}
			for range 3 {
				do(t, x, c.prepare)
				got, err := x.Reseed(t.Context())
				if err != nil || strings.Join(got.Reseeded, " ") != c.reseeded || !strings.Contains(strings.Join(got.Kept, " "), c.kept) {
					t.Errorf("%+v, %v", got, err)
				}
				r := do(t, x, c.draw)
				seen[r.Logs.Stdout+text(r)] = true
			}
			if len(seen) != 3 {
				t.Errorf("the same numbers come again: %v", seen)
			}
		})
	}
}

func TestNothingIsLeftOnTheHost(t *testing.T) {
	client := newClient(t, sandbox.Spec{})
	c := startIn(t, client, interpreter.Bash, interpreter.Options{})
	do(t, c, "true")
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	client.Close()
	before := runtime.NumGoroutine()
	for i := range 5 {
		c, err := interpreter.Start(t.Context(), client, interpreter.Bash, interpreter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		do(t, c, "true")
		switch i % 3 {
		case 0:
			err = c.Close(t.Context())
		case 1:
			_, err = c.Run(t.Context(), "exit 0", interpreter.Handler{})
			wantEnded(t, err, sandbox.NotFound)
			err = nil
		default:
			handle := c.Handle()
			c.Detach()
			if c, err = interpreter.Attach(t.Context(), client, handle, interpreter.Options{}); err == nil {
				err = c.Close(t.Context())
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
	client.Close()
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > before+2 {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines were %d\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(10 * time.Millisecond)
	}
}
