package isolationprobe

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What the child of a census does in these tests: it is killed at one number, hangs at another,
// and is refused at a third.
const (
	killedAt  = 7
	hungAt    = 11
	refusedAt = 13
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == modeCalls {
		from, err := strconv.Atoi(os.Args[2])
		if err != nil {
			panic(err)
		}
		play(from)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func play(from int) {
	for n := nextCall(from); n >= 0; n = nextCall(n + 1) {
		errno := unix.EBADF
		switch n {
		case killedAt:
			unix.Kill(unix.Getpid(), unix.SIGSYS)
			unix.Kill(unix.Getpid(), unix.SIGKILL)
		case hungAt:
			time.Sleep(time.Minute)
		case refusedAt:
			errno = unix.EPERM
		}
		fmt.Println(n, int(errno))
	}
}

// TestCensus: a filter that kills and a call that hangs do not end it, and each number is
// counted once.
func TestCensus(t *testing.T) {
	c := countedCensus(t)
	if c[killedAt] != wasKilled || c[hungAt] != hasHung || c.reachable(killedAt) || !c.reachable(hungAt) || c.reachable(refusedAt) || !c.reachable(hungAt+1) {
		t.Errorf("%v, %v, %v", c[killedAt], c[hungAt], c[refusedAt])
	}
	n := c.count()
	if n.Refused != 2 || n.Absent != 0 || n.Answered != n.Tried-2 || n.Tried < 300 {
		t.Errorf("%+v", n)
	}
	for _, number := range untried {
		if _, tried := c[number]; tried {
			t.Errorf("%d is tried", number)
		}
	}
}

// countedCensus is one in which one call has hung: on a busy host others may seem to, and
// are given more time.
func countedCensus(t *testing.T) (c census) {
	t.Helper()
	defer func(before time.Duration) { callTime = before }(callTime)
	for callTime = 300 * time.Millisecond; ; callTime *= 10 {
		var err error
		if c, err = takeCensus(); err != nil {
			t.Fatal(err)
		}
		hung := 0
		for _, errno := range c {
			if errno == hasHung {
				hung++
			}
		}
		if hung <= 1 || callTime > 10*time.Second {
			return c
		}
	}
}

// TestHarmless: what is not tried needs no arguments, and every group is tried.
func TestHarmless(t *testing.T) {
	for n := range harmless {
		if slices.Contains(untried, n) || nextCall(n) != n {
			t.Errorf("%d has arguments and is not tried", n)
		}
	}
	for _, g := range callGroups {
		for _, call := range g.calls {
			if nextCall(call.number) != call.number {
				t.Errorf("%s: %s is not tried", g.name, call.name)
			}
		}
	}
}
