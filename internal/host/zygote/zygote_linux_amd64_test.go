package zygote

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestForks forks a running python into other cells, again and again while it goes
// on.
func TestForks(t *testing.T) {
	s := newScene(t, countingProgram)
	var tree *Tree
	for n := range 10 {
		s.say(t, "source")
		began := time.Now()
		var err error
		if tree, err = s.take(tree); err != nil {
			t.Fatal(err)
		}
		taken := time.Since(began)
		if err := s.child(t, tree); err != nil {
			t.Fatal(err)
		}
		t.Logf("fork %d: checkpoint in %v, stopped for %v, %d KiB copied, child after %v", n, taken, tree.Pause, tree.Copied>>10, time.Since(began))
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
	s.unharmed(t, s.threads(t))
}

// TestTurns: a zygote and its warm fork have the shortest turns that there are, unless this
// program is nice, and a child those of the source, as all do in this package.
func TestTurns(t *testing.T) {
	want := turnOf(t, 0)
	if want == 0 {
		t.Skip("before Linux 6.12 the kernel does not tell how long turns are")
	}
	if attr, err := unix.SchedGetAttr(0, 0); err != nil {
		t.Fatal(err)
	} else if attr.Nice <= 0 {
		want = shortTurn
	}
	s := newScene(t, singleProgram)
	tree, err := s.take(nil)
	if err != nil {
		t.Fatal(err)
	}
	for range enoughForks {
		if err := s.child(t, tree); err != nil {
			t.Fatal(err)
		}
	}
	prepareWarm(t, tree)
	for name, pid := range map[string]int{"zygote": tree.zygotes[0].process.Pid(), "warm fork": warm(tree).process.Pid()} {
		if turn := turnOf(t, pid); turn != want {
			t.Errorf("a turn of the %s takes %v, not %v", name, turn, want)
		}
	}
	if err := errors.Join(s.child(t, tree), tree.Close()); err != nil {
		t.Error(err)
	}
}

// turnOf is how long a turn of a process takes; 0 where the kernel does not tell.
func turnOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	attr, err := unix.SchedGetAttr(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(attr.Runtime)
}
