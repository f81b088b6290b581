package confine

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSpare: from the third child on, a copy of the twin stands by for it. It
// catches up with what the source has become since, and is gone when its child is
// there.
func TestSpare(t *testing.T) {
	s := newForkScene(t)
	imprint, err := s.imprint(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { imprint.Close() }()
	for n := range 4 {
		imprint.StandBy()
		spare := s.spare(imprint)
		if (spare != nil) != (n >= 2) {
			t.Errorf("before child %d the spare is %v", n, spare)
		}
		pid := 0
		if spare != nil {
			pid = spare.process.Pid()
		}
		s.ask(t)
		if imprint, err = s.imprint(imprint); err != nil {
			t.Fatal(err)
		}
		if now := s.spare(imprint); s.host.Identity.Single {
			spare = now // only root sees what has changed
		} else if now != spare {
			t.Errorf("before child %d the spare is given up", n)
		}
		if err := s.child(t, imprint); err != nil {
			t.Fatal(err)
		}
		if pid > 0 && unix.Kill(pid, 0) != unix.ESRCH {
			t.Errorf("the spare is still there")
		}
	}
}

func (s *forkScene) spare(im *Imprint) *spare {
	im.Twins[0].usable() // waits for it to be made
	return im.Twins[0].spare
}

// ask has the source go on.
func (s *forkScene) ask(t *testing.T) {
	t.Helper()
	fmt.Fprintln(s.in, "source")
	if line, err := s.lines.ReadString('\n'); err != nil || line != fmt.Sprintln(s.answers) {
		t.Errorf("the source said %q, not %d: %v", line, s.answers, err)
	}
	s.answers++
}
