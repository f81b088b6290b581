package cell_test

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/guest"
	"aether/sandbox"
)

// conversation is a command that is spoken to line by line.
type conversation struct {
	in    io.WriteCloser
	lines *bufio.Reader
	pid   int
}

// converse starts a command, or connects to one if pid is not 0.
func converse(t testing.TB, instance sandbox.Instance, pid int, command ...string) *conversation {
	t.Helper()
	return talk(t, instance, pid, guest.Cmd{}, command...)
}

// onTerminal is converse with a terminal.
func onTerminal(t testing.TB, instance sandbox.Instance, pid int, command ...string) *conversation {
	t.Helper()
	return talk(t, instance, pid, guest.Cmd{Terminal: &guest.Size{Cols: 80, Rows: 24}}, command...)
}

func talk(t testing.TB, instance sandbox.Instance, pid int, cmd guest.Cmd, command ...string) *conversation {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, outW
	c := client(t, instance)
	var running *guest.Running
	var err error
	if pid == 0 {
		if !strings.Contains(command[0], "/") {
			need(t, command[0])
		}
		cmd.Path, cmd.Args = command[0], command[1:]
		running, err = c.Start(t.Context(), cmd)
	} else {
		running, err = c.Connect(t.Context(), pid, cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := running.Wait()
		outW.CloseWithError(err)
	}()
	t.Cleanup(func() { inW.Close(); outR.Close(); running.Close() })
	return &conversation{inW, bufio.NewReader(outR), running.Pid()}
}

func (c *conversation) hear(t testing.TB, want string) {
	t.Helper()
	heard := make(chan string, 1)
	go func() {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			line += err.Error()
		}
		heard <- line
	}()
	select {
	case line := <-heard:
		if line != want+"\n" {
			t.Fatalf("heard %q, want %q", line, want)
		}
	case <-time.After(patience(30 * time.Second)):
		t.Fatalf("heard nothing, want %q", want)
	}
}

func (c *conversation) say(t testing.TB, text string) {
	t.Helper()
	if _, err := fmt.Fprintln(c.in, text); err != nil {
		t.Fatal(err)
	}
}

// fork forks a source, and has the children destroyed with the test.
func fork(t testing.TB, source sandbox.Instance, n int) []sandbox.Instance {
	t.Helper()
	children := forkInto(t, source, make([]sandbox.Spec, n)...)
	for _, child := range children {
		t.Cleanup(func() { destroy(t, child) })
	}
	return children
}

const adder = `
import sys, os
total = sum(range(100000))
open("/tmp/kept", "w").write("written before")
print("primed", flush=True)
for line in sys.stdin:
    print(total + int(line), os.getpid(), open("/tmp/kept").read(), flush=True)
    total += 1
`

func TestForkOfPython(t *testing.T) {
	driver, _ := newDriverAhead(t, 8)
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", adder)
	python.hear(t, "primed")
	children := fork(t, source, 5)
	python.say(t, "7")
	python.hear(t, fmt.Sprintf("4999950007 %d written before", python.pid))
	for i, child := range children {
		c := converse(t, child, python.pid)
		c.say(t, fmt.Sprint(i))
		c.hear(t, fmt.Sprintf("%d %d written before", 4999950000+i, python.pid))
	}
	sh(t, children[0], "echo changed > /tmp/kept")
	grandchildren := fork(t, children[0], 2)
	for i, child := range grandchildren {
		c := converse(t, child, python.pid)
		c.say(t, fmt.Sprint(i))
		c.hear(t, fmt.Sprintf("%d %d changed", 4999950001+i, python.pid))
		c.hear(t, "")
	}
}

const nodeAdder = `
let total = 0;
for (let i = 0; i < 100000; i++) total += i;
const rl = require('readline').createInterface({input: process.stdin});
console.log('primed');
rl.on('line', (line) => { console.log(total + Number(line)); });
`

func TestForkOfNode(t *testing.T) {
	driver, _ := newDriverAhead(t, 8)
	source := create(t, driver, sandbox.Spec{})
	node := converse(t, source, 0, "node", "-e", nodeAdder)
	node.hear(t, "primed")
	children := fork(t, source, 3)
	node.say(t, "7")
	node.hear(t, "4999950007")
	for i, child := range children {
		c := converse(t, child, node.pid)
		c.say(t, fmt.Sprint(i))
		c.hear(t, fmt.Sprint(4999950000+i))
	}
}

// TestForkOfAPausedCell: a template is kept paused, and stays so.
func TestForkOfAPausedCell(t *testing.T) {
	needRoot(t, "cgroups to pause with")
	driver, _ := newDriverAhead(t, 8)
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", adder)
	python.hear(t, "primed")
	if err := source.(sandbox.Pauser).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		for i, child := range fork(t, source, 2) {
			c := converse(t, child, python.pid)
			c.say(t, fmt.Sprint(i))
			c.hear(t, fmt.Sprintf("%d %d written before", 4999950000+i, python.pid))
		}
		pause := source.(interface{ LastFork() cell.Forked }).LastFork().Pause
		if round > 0 && pause != 0 {
			t.Errorf("a paused source was stopped for %v", pause)
		}
	}
	python.say(t, "7")
	if err := source.(sandbox.Pauser).Pause(t.Context()); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Errorf("pausing it again: %v", err)
	}
	if err := source.(sandbox.Pauser).Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	python.hear(t, fmt.Sprintf("4999950007 %d written before", python.pid))
	c := converse(t, fork(t, source, 1)[0], python.pid)
	c.say(t, "1")
	c.hear(t, fmt.Sprintf("4999950002 %d written before", python.pid))
}
