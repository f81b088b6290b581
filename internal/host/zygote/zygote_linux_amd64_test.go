package zygote

import (
	"testing"
	"time"
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
