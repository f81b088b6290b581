package cell_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/guest"
	"aether/sandbox"
)

// promptly is how long a fork of whatever source may take, or its refusal.
var promptly = patience(20 * time.Second)

// TestForkOfHostile forks programs that make it hard. Each fork is either right
// or refused, and the source goes on.
func TestForkOfHostile(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, _ := newDriverAhead(t, ahead)
	const fork, refuse, either = "fork", "refuse", "either"
	for _, c := range []struct{ mode, outcome string }{
		{"plain", fork}, {"threads", either}, {"maps", fork}, {"signals", either}, {"processes", either}, {"execs", either},
		{"vdso", refuse}, {"middle", fork}, {"everywhere", either}, {"mappings", either}, {"descriptors", fork}, {"odd", fork},
		{"narrow", either}, {"lonely", either}, {"timer", either}, {"filter", refuse}, {"wiped", fork}, {"interrupted", fork},
		{"pending", either}, {"headless", either},
	} {
		t.Run(c.mode, func(t *testing.T) {
			source := create(t, driver, sandbox.Spec{})
			h := &hostile{source: source, conversation: converse(t, source, 0, program(t, source, "fork_hostile"), c.mode)}
			h.hear(t, "primed")
			for range few(10) {
				h.fork(t)
			}
			h.replies(t)
			h.untraced(t)
			t.Logf("%d forks, %d refused, the longest took %v: %v", h.forked, h.refused, h.longest.Round(time.Millisecond), h.last)
			if c.outcome == fork && h.refused > 0 || c.outcome == refuse && h.forked > 0 {
				t.Errorf("it should %s always: %v", c.outcome, h.last)
			}
		})
	}
}

// hostile is a source that is spoken to while it is forked.
type hostile struct {
	*conversation
	source          sandbox.Instance
	answered        int
	forked, refused int
	longest         time.Duration
	last            error
}

func (h *hostile) replies(t *testing.T) {
	t.Helper()
	h.say(t, "1000")
	h.hear(t, fmt.Sprint(1000+h.answered))
	h.answered++
}

// fork tries once, and looks at both sides.
func (h *hostile) fork(t *testing.T) {
	t.Helper()
	began := time.Now()
	children, err := forkWithin(t, h.source)
	h.longest = max(h.longest, time.Since(began))
	if err != nil {
		h.refused, h.last = h.refused+1, err
		if class := sandbox.ClassOf(err); class != sandbox.Conflict && class != sandbox.Exhausted && class != sandbox.Unsupported {
			t.Errorf("a fork was refused with %v: %v", class, err)
		}
	} else {
		h.forked++
		defer destroy(t, children[0])
		if err := ask(t.Context(), children[0], h.pid, "2000", fmt.Sprintln(2000+h.answered)); err != nil {
			t.Errorf("fork %d: %v", h.forked, err)
		}
	}
	if !passes(h.last) {
		h.replies(t)
	}
}

// forkWithin fails the test if a fork takes too long.
func forkWithin(t *testing.T, source sandbox.Instance) (children []sandbox.Instance, err error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		children, err = source.(sandbox.Forker).Fork(context.Background(), make([]sandbox.Spec, 1))
	}()
	select {
	case <-done:
	case <-time.After(promptly):
		stacks := make([]byte, 1<<20)
		t.Fatalf("a fork takes longer than %v:\n%s", promptly, stacks[:runtime.Stack(stacks, true)])
	}
	return children, err
}

// untraced looks at every thread of the source from outside.
func (h *hostile) untraced(t *testing.T) {
	t.Helper()
	for _, p := range descendants(t, os.Getpid()) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.PID))
		for _, task := range tasks {
			text, err := os.ReadFile(task)
			if err == nil && !strings.Contains(string(text), "TracerPid:\t0\n") {
				t.Errorf("%s is still traced", task)
			}
		}
	}
}

// TestForkWhileStopped forks a program that another one stops and continues.
func TestForkWhileStopped(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, _ := newDriverAhead(t, ahead)
	source := create(t, driver, sandbox.Spec{})
	h := &hostile{source: source, conversation: converse(t, source, 0, program(t, source, "fork_hostile"), "plain")}
	h.hear(t, "primed")
	stopper := start(t, source, fmt.Sprintf("while kill -STOP %d && kill -CONT %d; do :; done", h.pid, h.pid))
	for range few(20) {
		h.fork(t)
	}
	t.Logf("%d forks, %d refused, the longest took %v: %v", h.forked, h.refused, h.longest.Round(time.Millisecond), h.last)
	if err := stopper.Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	sh(t, source, fmt.Sprintf("kill -CONT %d", h.pid))
	h.replies(t)
	h.untraced(t)
}

// TestForkOfTheDying kills the source in the midst of forks.
func TestForkOfTheDying(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, runDir := newDriverAhead(t, ahead)
	forkOnce(t, driver)
	warm(t, driver, standing(t, ahead))
	before := takeCensus(t, runDir)
	forked, refused, times := 0, 0, few(60)
	for n := range times {
		source, err := driver.Create(t.Context(), sandbox.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		victim := guest.NewClient(source.Dial, guest.ClientOptions{})
		running, err := victim.Start(t.Context(), guest.Cmd{Path: "python3", Args: []string{"-c", "import time; time.sleep(1000)"}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		end := time.AfterFunc(time.Duration(n)*20*time.Millisecond/time.Duration(times), func() {
			if n%2 == 0 {
				source.Destroy(context.Background())
			} else {
				running.Signal(context.Background(), syscall.SIGKILL)
			}
		})
		children, err := forkWithin(t, source)
		end.Stop()
		if err != nil {
			refused++
			t.Logf("refused: %v", err)
			if sandbox.ClassOf(err) == sandbox.Internal {
				t.Errorf("a dying source is refused with %v", err)
			}
		} else {
			forked++
			destroy(t, children[0])
		}
		running.Close()
		victim.Close()
		destroy(t, source)
	}
	t.Logf("%d forks, %d refused", forked, refused)
	wantNoGrowth(t, before, runDir)
}

// forkOnce has the program open what it then keeps for all forks.
func forkOnce(t *testing.T, driver sandbox.Driver) {
	t.Helper()
	source, err := driver.Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer destroy(t, source)
	start(t, source, "exec sleep 1000")
	for _, child := range fork(t, source, 1) {
		destroy(t, child)
	}
}

// TestForkOfChangingMemory forks a program again and again that changes its
// memory in between, and forks what was forked.
func TestForkOfChangingMemory(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, _ := newDriverAhead(t, ahead)
	seed := rand.Uint32()
	t.Logf("seed %d", seed)
	source := create(t, driver, sandbox.Spec{})
	c := converse(t, source, 0, program(t, source, "fork_memory"))
	c.hear(t, "primed")
	for n := range few(100) {
		changes := 150
		if n%4 > 0 {
			changes = 1 // often one that the list of mappings does not show
		}
		work := fmt.Sprintf("work %d %d", seed+uint32(n), changes)
		if n%2 > 0 {
			c.right(t, fmt.Sprintf("blind %d %d", seed+uint32(n), changes))
		} else {
			c.right(t, work)
		}
		forked := fork(t, source, 1)[0]
		child := converse(t, forked, c.pid)
		child.right(t, "born")
		if n%3 == 0 { // its own changes, and its own child
			child.right(t, work)
			grandchild := converse(t, fork(t, forked, 1)[0], c.pid)
			grandchild.right(t, "born")
			grandchild.right(t, work)
			child.right(t, work)
		}
		destroy(t, forked)
	}
}

// right says something and wants everything to be as it must.
func (c *conversation) right(t *testing.T, text string) {
	t.Helper()
	c.say(t, text)
	line, err := c.lines.ReadString('\n')
	if err != nil || !strings.HasSuffix(line, " right\n") {
		t.Fatalf("after %q it said %q, %v", text, line, err)
	}
}
