package ptrace

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// TestPending: a stop that nobody has taken notice of is seen, and left for who waits for it.
func TestPending(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, err := Seize(startSleeper(t))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); !thread.pending() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	for range 2 {
		if !thread.pending() {
			t.Fatal("it has not stopped, or nobody is told any more")
		}
	}
	if err := thread.Await(); err != nil {
		t.Fatal(err)
	}
	if thread.pending() {
		t.Error("a stop that was taken notice of is told again")
	}
	if err := thread.Detach(); err != nil {
		t.Error(err)
	}
}

// TestRuns: a thread that has something to do is told from one that waits, whatever its
// program is called.
func TestRuns(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	for program, c := range map[string]struct {
		script string
		want   bool
	}{"a) S 1 (b": {"while :; do :; done", true}, "a) R 1 (b": {"read line", false}} {
		path := filepath.Join(t.TempDir(), program)
		if err := os.Symlink(shell, path); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), path, "-c", c.script)
		input, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		thread := &Thread{TID: cmd.Process.Pid}
		for end := time.Now().Add(patience); thread.runs() != c.want && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if thread.runs() != c.want {
			t.Errorf("%s: it runs: %v", c.script, !c.want)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		input.Close()
		if thread.runs() {
			t.Error("what has ended runs")
		}
	}
}
