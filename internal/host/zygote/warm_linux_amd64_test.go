package zygote

import (
	"errors"
	"fmt"
	"testing"

	"aether/internal/host/checkpoint"
	"aether/internal/host/confine"

	"golang.org/x/sys/unix"
)

// TestWarmFork: from the third child on, a warm fork is kept for it. It catches up
// with what the source has become since, and is gone when its child is there.
func TestWarmFork(t *testing.T) {
	s := newScene(t, countingProgram)
	tree, err := s.take(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { tree.Close() }()
	for n := range 4 {
		prepareWarm(t, tree)
		before := warm(tree)
		if (before != nil) != (n >= enoughForks) {
			t.Errorf("before child %d the warm fork is %v", n, before)
		}
		pid := 0
		if before != nil {
			pid = before.process.Pid()
		}
		s.say(t, "source")
		if tree, err = s.take(tree); err != nil {
			t.Fatal(err)
		}
		// Only root sees what has changed.
		if now := warm(tree); !s.host.Identity.Single && now != before {
			t.Errorf("before child %d the warm fork is given up", n)
		}
		if err := s.child(t, tree); err != nil {
			t.Fatal(err)
		}
		if pid > 0 && unix.Kill(pid, 0) != unix.ESRCH {
			t.Errorf("the warm fork is still there")
		}
	}
}

// assignWarm makes a warm fork and a cell that it is to join while the next checkpoint
// is taken.
func (s *scene) assignWarm(t *testing.T, tree *Tree) *confine.Cell {
	t.Helper()
	for tree.zygotes[0].forks < enoughForks {
		if err := s.child(t, tree); err != nil {
			t.Fatal(err)
		}
	}
	prepareWarm(t, tree)
	if warm(tree) == nil {
		t.Fatal("there is no warm fork")
	}
	cell := s.boot(t)
	if n, err := tree.Prejoin(confine.Joining{Cell: cell, Group: config.Group}, false); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	return cell
}

// TestPrejoin: a warm fork that is assigned joins its cell while the source is read.
// One that then cannot do what the source did last is done without.
func TestPrejoin(t *testing.T) {
	s := newScene(t, singleProgram)
	if s.host.Identity.Single {
		t.Skip("without root there are no warm forks")
	}
	tree, err := s.take(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { tree.Close() }()
	for _, c := range []struct {
		say      string
		kept     bool
		confined bool
	}{{"nothing", true, true}, {"thread", false, false}, {"nothing", true, false}} {
		cell := s.assignWarm(t, tree)
		s.say(t, c.say)
		threads := s.threads(t)
		if tree, err = s.take(tree); err != nil {
			t.Fatal(err)
		}
		kept := warm(tree)
		if (kept != nil) != c.kept || kept != nil && (kept.confined != c.confined || kept.state != joined) {
			t.Errorf("after %q the warm fork is %+v", c.say, kept)
		}
		if kept != nil {
			kept.confined = true // as if the thread were on a stack that was there
		}
		if err := s.childIn(t, tree, cell); err != nil {
			t.Errorf("after %q: %v", c.say, err)
		}
		endCell(t, cell)
		s.unharmed(t, threads)
	}
}

var errInVain = errors.New("in vain")

// TestPrejoinInVain gives up a warm fork that was assigned, before it joins and after.
func TestPrejoinInVain(t *testing.T) {
	s := newScene(t, singleProgram)
	if s.host.Identity.Single {
		t.Skip("without root there are no warm forks")
	}
	threads := s.threads(t)
	for name, giveUp := range map[string]func(*Tree) error{
		"before": (*Tree).Close,
		"after": func(tree *Tree) error {
			_, err := Take(s.host, s.source, []checkpoint.Running{{PID: s.process.Pid(), Parent: -1}}, tree, func() error { return errInVain })
			if !errors.Is(err, errInVain) {
				return fmt.Errorf("it was taken: %w", err)
			}
			return nil
		},
	} {
		tree, err := s.take(nil)
		if err != nil {
			t.Fatal(err)
		}
		cell := s.assignWarm(t, tree)
		if err := giveUp(tree); err != nil {
			t.Errorf("%s it joined: %v", name, err)
		}
		endCell(t, cell)
		s.unharmed(t, threads)
	}
}
