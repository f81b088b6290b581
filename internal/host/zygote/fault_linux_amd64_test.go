package zygote

import (
	"errors"
	"testing"
	"time"
)

// TestForkFailsAtAnyStep makes every step of a zygote's scripts fail in turn. The
// fork is refused, its source goes on as if nothing had been, and nothing is left of
// the child.
func TestForkFailsAtAnyStep(t *testing.T) {
	s, single := newScene(t, countingProgram), newScene(t, singleProgram)
	total := 0
	for _, script := range []failing{
		{"memory", 1, s.fork, true, s},
		{"restore", 2, s.fork, true, s},
		// Where there can be no warm fork, children are made without.
		{"warm fork", 4, s.forkAgain, false, s},
		{"joining of a warm fork", 5, s.forkAgain, true, s},
		{"restore by a warm fork", 6, s.forkAgain, true, s},
		{"joining of a warm fork with one thread", 5, single.forkAgain, true, single},
		{"restore of one thread by a warm fork", 6, single.forkAgain, true, single},
	} {
		s := script.scene
		if script.place > 3 && s.host.Identity.Single {
			continue // without root all is copied anew, and a warm fork is of no use
		}
		for step, found := 0, true; found; step++ {
			if testing.Short() {
				step += 9
			}
			found = s.failStep(t, script, step)
			if t.Failed() {
				t.Fatalf("step %d of the script %q", step, script.name)
			}
			total++
		}
	}
	t.Logf("%d steps failed", total)
}

// failing is one of the scripts that are run in a fork, by its place among them, and
// whether the fork fails if it does.
type failing struct {
	name    string
	place   int
	fork    func(*testing.T) error
	matters bool
	scene   *scene
}

// failStep makes one step of one of the scripts fail; it says whether there is such a
// step.
func (s *scene) failStep(t *testing.T, which failing, step int) (found bool) {
	t.Helper()
	threads := s.threads(t)
	run, matters := 0, true
	failSteps = func(script interface {
		Len() int
		Spoil(step int) bool
	}) {
		if run++; run != which.place {
			return
		}
		// The first steps are those in which the zygote waits for scripts.
		const home = 11
		if found = home+step < script.Len(); found {
			matters = script.Spoil(home + step)
		}
	}
	err := which.fork(t)
	failSteps = nil
	if step == 0 && !found {
		t.Errorf("there is no script %q", which.name)
	}
	switch fails := found && matters && which.matters; {
	case fails && err == nil:
		t.Errorf("step %d of the script %q fails, and nobody notices", step, which.name)
	case !fails && err != nil:
		t.Errorf("step %d of the script %q does not matter, but %v", step, which.name, err)
	}
	s.unharmed(t, threads)
	return found
}

// fork forks the program once, and ends the child.
func (s *scene) fork(t *testing.T) (err error) {
	t.Helper()
	defer noticed(t, time.Now())
	tree, err := s.take(nil)
	if err != nil {
		return err
	}
	return errors.Join(s.child(t, tree), tree.Close())
}

// forkAgain forks it until there is a warm fork, and then once more when it has gone
// on.
func (s *scene) forkAgain(t *testing.T) (err error) {
	t.Helper()
	defer noticed(t, time.Now())
	tree, err := s.take(nil)
	if err != nil {
		return err
	}
	for range enoughForks {
		if err := s.child(t, tree); err != nil {
			return errors.Join(err, tree.Close())
		}
	}
	prepareWarm(t, tree)
	time.Sleep(time.Millisecond) // it counts meanwhile
	if tree, err = s.take(tree); err != nil {
		return err
	}
	return errors.Join(s.child(t, tree), tree.Close())
}

// noticed says that a failure was, and not waited out.
func noticed(t *testing.T, began time.Time) {
	t.Helper()
	if took := time.Since(began); took >= noticeWithin {
		t.Errorf("it took %v: a failure was waited out, not noticed", took)
	}
}
