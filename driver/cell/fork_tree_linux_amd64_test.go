package cell_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/sandbox"
)

// TestForkAfterAProcessWasStarted forks a program, has it start another, and forks
// both: what the first fork knew of the cell holds no longer.
func TestForkAfterAProcessWasStarted(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, _ := newDriverAhead(t, 8)
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", `
import os, subprocess, sys
print("primed", flush=True)
for line in sys.stdin:
    if line == "start\n":
        sleeper = subprocess.Popen(["sleep", "3600"])
        while open("/proc/%d/comm" % sleeper.pid).read() != "sleep\n": pass
    names = [open("/proc/%s/comm" % p).read() for p in os.listdir("/proc") if p.isdigit()]
    print(names.count("sleep\n"), flush=True)
`)
	python.hear(t, "primed")
	for n := range 3 {
		for range 3 {
			child := converse(t, fork(t, source, 1)[0], python.pid)
			child.say(t, "count")
			child.hear(t, fmt.Sprint(n))
		}
		python.say(t, "start")
		python.hear(t, fmt.Sprint(n+1))
	}
}

// TestForkOfAShellWithItsChild: the copy of the shell waits for the copy of its
// child, as a parent does.
func TestForkOfAShellWithItsChild(t *testing.T) {
	driver, _ := newDriverAhead(t, 8)
	source := create(t, driver, sandbox.Spec{})
	shell := converse(t, source, 0, "sh", "-c", `exec 2>&1; python3 -c '`+adder+`'; echo "ended $?"`)
	shell.hear(t, "primed")
	children := fork(t, source, 3)
	for i, child := range children {
		c := converse(t, child, shell.pid)
		c.say(t, fmt.Sprint(i))
		c.hear(t, fmt.Sprintf("%d %d written before", 4999950000+i, shell.pid+1))
		c.say(t, "no number")
		c.until(t, "ValueError: invalid literal for int() with base 10: 'no number\\n'\n")
		c.hear(t, "ended 1")
	}
	shell.say(t, "7")
	shell.hear(t, fmt.Sprintf("4999950007 %d written before", shell.pid+1))
}

// until reads lines until one has the text.
func (c *conversation) until(t testing.TB, text string) {
	t.Helper()
	var mu sync.Mutex // of all
	all, seen := "", make(chan error, 1)
	go func() {
		for {
			b, err := c.lines.ReadByte()
			mu.Lock()
			if err == nil {
				all += string(b)
			}
			found := strings.Contains(all, text)
			mu.Unlock()
			if found || err != nil {
				seen <- err
				return
			}
		}
	}()
	var err error
	select {
	case err = <-seen:
	case <-time.After(patience(30 * time.Second)):
		err = context.DeadlineExceeded
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(all, text) {
		t.Fatalf("%q is not in %q: %v", text, all, err)
	}
}

// TestForkOfAnInteractiveShell: the copy has a terminal of its own, with the job
// in its foreground, and is the shell again when the job has ended.
func TestForkOfAnInteractiveShell(t *testing.T) {
	driver, _ := newDriverAhead(t, 8)
	source := create(t, driver, sandbox.Spec{})
	shell := onTerminal(t, source, 0, "bash", "--norc", "--noprofile", "-i")
	shell.say(t, "PS1=; kept=variable; stty -echo; echo be''gun; cat")
	shell.until(t, "begun")
	shell.say(t, "a line")
	shell.until(t, "a line")
	for i, child := range fork(t, source, 2) {
		c := onTerminal(t, child, shell.pid)
		c.say(t, fmt.Sprintf("line %d", i))
		c.until(t, fmt.Sprintf("line %d", i))
		c.say(t, fmt.Sprintf("\x04\necho $kept $((20+%d)) $(tty) $(jobs | wc -l)", i))
		c.until(t, fmt.Sprintf("variable %d /dev/pts/0 0", 20+i))
		c.say(t, "sh -c 'echo un''der way; exec sleep 1000'")
		c.until(t, "under way")
		fmt.Fprint(c.in, "\x03") // interrupts what is in the foreground, not the shell
		c.say(t, "echo interrupted $?")
		c.until(t, "interrupted 130")
	}
	shell.say(t, "still here")
	shell.until(t, "still here")
}
