package confine

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const enteringTime = 1500 // milliseconds that attackers get for a race

// entering executes again and again in a cell where a spy waits for processes
// that still share this program's memory.
func entering(t *testing.T, s *scene) {
	before := (proc{os.Getpid()}).text("oom_score_adj")
	for _, who := range s.whos() {
		cell := s.boot(t)
		f := s.facts
		f.Limit = enteringTime
		r := s.start(t, cell, "spy", who, f)
		executions := 0
		for !r.ended() {
			q, _, err := cell.Exec(trueCommand(who))
			if err != nil {
				t.Fatal(err)
			}
			q.Wait()
			executions++
		}
		report, err := io.ReadAll(r.out)
		if err != nil || !strings.HasPrefix(string(report), "ready") {
			t.Errorf("%s: the spy said %q (%v)", who.name, report, err)
		}
		for leak := range strings.Lines(strings.TrimPrefix(string(report), "ready\n")) {
			t.Errorf("%s, in %d executions: %s", who.name, executions, strings.TrimSpace(leak))
		}
	}
	if after := (proc{os.Getpid()}).text("oom_score_adj"); after != before {
		t.Errorf("a cell set our oom_score_adj to %s", after)
	}
}

func trueCommand(who who) Command {
	return Command{Path: "/usr/bin/true", Args: []string{"true"}, Dir: "/", UID: who.id, GID: who.id, Group: noGroup}
}

// stoppedOnEntering executes in a cell whose processes stop each other. A
// process stopped before it executes its program must not hold up this one.
func stoppedOnEntering(t *testing.T, s *scene) {
	cell := s.boot(t)
	f := s.facts
	f.Limit = enteringTime
	r := s.start(t, cell, "stopper", who{"user", UserID}, f)
	line(t, r.out)
	for !r.ended() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if q, _, err := cell.Exec(trueCommand(who{"user", UserID})); err == nil {
				q.Signal(unix.SIGKILL)
				q.Wait()
			}
		}()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("a process of the cell holds up an execution")
			endCell(t, cell)
			<-done
			return
		}
	}
}

// othersAreNotHeldUp makes cells while a command is stopped on its way into another
// one. An ordinary user's cells are made and entered in turn, so what is stopped must
// not have its turn for long.
func othersAreNotHeldUp(t *testing.T, s *scene) {
	// A busy host holds everybody up, and it is tried again. What is stopped does so each time.
	for range 5 {
		if late, made := s.makeBesideStopped(t); late <= made/2 {
			return
		}
	}
	t.Error("most cells are made in more than a second, beside one whose processes stop each other")
}

// makeBesideStopped says how many cells were made, and how many of them in more than a second.
func (s *scene) makeBesideStopped(t *testing.T) (late, made int) {
	t.Helper()
	cell := s.boot(t)
	f := s.facts
	f.Limit = 2 * enteringTime
	r := s.start(t, cell, "stopper", who{"user", UserID}, f)
	line(t, r.out)
	entered := make(chan struct{})
	go func() {
		defer close(entered)
		for !r.ended() {
			if q, _, err := cell.Exec(trueCommand(who{"user", UserID})); err == nil {
				q.Signal(unix.SIGKILL)
				q.Wait()
			}
		}
	}()
	var longest time.Duration
	for ; !r.ended(); made++ {
		start := time.Now()
		other, err := s.base.Boot(Config{Hostname: "other", Upper: 16 << 20, Group: noGroup})
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		if longest = max(longest, took); took > time.Second {
			late++
		}
		endCell(t, other)
	}
	<-entered
	t.Logf("%d cells were made, one in %v at most", made, longest)
	endCell(t, cell)
	return late, made
}
