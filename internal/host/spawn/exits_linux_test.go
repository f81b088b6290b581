package spawn

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newExits(t *testing.T) *Exits {
	t.Helper()
	e, err := WatchExits()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func sleeper(t *testing.T) *Process {
	t.Helper()
	s := newScript(t)
	execute(s, "/bin/sleep", "1000")
	p, err := startAndAwait(t, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Signal(unix.SIGKILL)
		p.Wait()
	})
	return p
}

// TestExits kills some of many processes, in the order in which they were not made,
// and one that had ended before it was watched.
func TestExits(t *testing.T) {
	e := newExits(t)
	const many = 100
	processes, ended := make([]*Process, many), make(chan int, many+1)
	for n := range processes {
		processes[n] = sleeper(t)
	}
	processes[0].Signal(unix.SIGKILL)
	goroutines := runtime.NumGoroutine()
	for n, p := range processes {
		e.Call(p, func() {
			if status, err := p.Wait(); err != nil || status.Signal != unix.SIGKILL {
				t.Errorf("process %d: %+v, %v", n, status, err)
			}
			ended <- n
		})
	}
	if got := <-ended; got != 0 {
		t.Errorf("%d has ended, not the first", got)
	}
	if now := runtime.NumGoroutine(); now > goroutines+many/10 {
		t.Errorf("%d goroutines before and %d while they live", goroutines, now)
	}
	for n := many - 1; n > many/2; n-- {
		processes[n].Signal(unix.SIGKILL)
		if got := <-ended; got != n {
			t.Errorf("%d has ended, not %d", got, n)
		}
	}
	select {
	case n := <-ended:
		t.Errorf("%d has not ended", n)
	case <-time.After(50 * time.Millisecond):
	}
}

// TestExitsClosed has those wait by themselves who are left.
func TestExitsClosed(t *testing.T) {
	e := newExits(t)
	for when, p := range map[string]*Process{"before": sleeper(t), "after": sleeper(t)} {
		if when == "after" {
			e.Close()
		}
		ended := make(chan error, 1)
		e.Call(p, func() {
			_, err := p.Wait()
			ended <- err
		})
		if when == "before" {
			e.Close()
		}
		p.Signal(unix.SIGKILL)
		if err := <-ended; err != nil {
			t.Errorf("watched %s the end of watching: %v", when, err)
		}
	}
}
