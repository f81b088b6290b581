package confine

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSpare: from the third child on, a copy of the twin stands by for it. It
// catches up with what the source has become since, and is gone when its child is
// there.
func TestSpare(t *testing.T) {
	s := newForkScene(t, forkProgram)
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

// TestAnnounced: whoever is announced comes while the source is looked at. One that
// then cannot do what the source did last is done without, and one that never was
// needed is gone.
func TestAnnounced(t *testing.T) {
	s := newForkScene(t, singleProgram)
	if s.host.Identity.Single {
		t.Skip("without root there are no spares")
	}
	imprint, err := s.imprint(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { imprint.Close() }()
	announce := func() *Cell {
		t.Helper()
		for len(imprint.Twins) > 0 && imprint.Twins[0].children < 2 {
			if err := s.child(t, imprint); err != nil {
				t.Fatal(err)
			}
		}
		imprint.StandBy()
		if s.spare(imprint) == nil {
			t.Fatal("there is no spare")
		}
		cell, err := s.base.Boot(forkConfig)
		if err != nil {
			t.Fatal(err)
		}
		if err := imprint.Announce(cell, noGroup); err != nil {
			t.Fatal(err)
		}
		return cell
	}
	for _, c := range []struct {
		say      string
		kept     bool
		confined bool
	}{{"nothing", true, true}, {"thread", false, false}, {"nothing", true, false}} {
		cell := announce()
		s.say(t, c.say)
		threads := s.threads(t)
		if imprint, err = s.imprint(imprint); err != nil {
			t.Fatal(err)
		}
		spare := s.spare(imprint)
		if (spare != nil) != c.kept || spare != nil && spare.confined != c.confined {
			t.Errorf("after %q the spare is %+v", c.say, spare)
		}
		if spare != nil {
			spare.confined = true // as if the thread were on a stack that was there
		}
		if err := s.childIn(t, imprint, cell); err != nil {
			t.Errorf("after %q: %v", c.say, err)
		}
		endCell(t, cell)
		s.unharmed(t, threads)
	}
}

// TestAnnouncedInVain gives up what was announced, before it came and after.
func TestAnnouncedInVain(t *testing.T) {
	s := newForkScene(t, singleProgram)
	if s.host.Identity.Single {
		t.Skip("without root there are no spares")
	}
	threads := s.threads(t)
	for name, giveUp := range map[string]func(*Imprint) error{
		"before": (*Imprint).Close,
		"after": func(im *Imprint) error {
			_, err := s.source.Imprint([]Running{{s.process.Pid(), -1}}, im, func() error { return errVain })
			if !errors.Is(err, errVain) {
				return fmt.Errorf("it was taken: %w", err)
			}
			return nil
		},
	} {
		imprint, err := s.imprint(nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.child(t, imprint); err != nil {
				t.Fatal(err)
			}
		}
		imprint.StandBy()
		s.spare(imprint)
		cell, err := s.base.Boot(forkConfig)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(imprint.Announce(cell, noGroup), giveUp(imprint)); err != nil {
			t.Errorf("%s it came: %v", name, err)
		}
		endCell(t, cell)
		s.unharmed(t, threads)
	}
}

var errVain = errors.New("in vain")

func (s *forkScene) spare(im *Imprint) *spare {
	im.Twins[0].usable() // waits for it to be made
	return im.Twins[0].spare
}

// ask has the source go on.
func (s *forkScene) ask(t *testing.T) {
	t.Helper()
	s.say(t, "source")
}

func (s *forkScene) say(t *testing.T, what string) {
	t.Helper()
	fmt.Fprintln(s.in, what)
	if line, err := s.lines.ReadString('\n'); err != nil || line != fmt.Sprintln(s.answers) {
		t.Errorf("the source said %q, not %d: %v", line, s.answers, err)
	}
	s.answers++
}
