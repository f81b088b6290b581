package drivertest

import (
	"testing"
	"time"

	"aether/guest"
	"aether/sandbox"
)

func (s *suite) pausing() []test {
	return []test{{"stops and goes on", s.pause}, {"destroy while paused", s.destroyPaused}}
}

func (s *suite) pausable(t *testing.T) (*box, sandbox.Pauser) {
	b := s.make(t, sandbox.Spec{})
	return b, b.Instance.(sandbox.Pauser)
}

// mustPause skips where this host does not permit it.
func (s *suite) mustPause(t *testing.T, p sandbox.Pauser) {
	t.Helper()
	err := p.Pause(s.patient(t))
	if sandbox.ClassOf(err) == sandbox.Unavailable {
		t.Skipf("this host cannot: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *suite) pause(t *testing.T) {
	b, p := s.pausable(t)
	ticks := newLines()
	cmd := guest.Cmd{Path: "/bin/sh", Args: []string{"-c", "while :; do echo tick; sleep 0.02; done"}, Stdout: ticks}
	running, err := b.Client.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	go running.Wait()
	ticks.await(t, s.Config, "tick")
	s.mustPause(t, p)
	wantClass(t, p.Pause(s.patient(t)), sandbox.Conflict)
	var before int
	if !s.eventually(func() bool { // what was on its way arrives
		before = ticks.len()
		time.Sleep(s.within(300 * time.Millisecond))
		return ticks.len() == before
	}) {
		t.Error("a paused sandbox goes on writing")
	}
	if err := p.Resume(s.patient(t)); err != nil {
		t.Fatal(err)
	}
	if !s.eventually(func() bool { return ticks.len() > before }) {
		t.Error("a resumed sandbox does not go on")
	}
	wantClass(t, p.Resume(s.patient(t)), sandbox.Conflict)
	b.sh(t, "true")
}

func (s *suite) destroyPaused(t *testing.T) {
	b, p := s.pausable(t)
	b.start(t, "while :; do :; done")
	s.mustPause(t, p)
	b.destroy(t)
	if exit, err := b.Instance.Wait(s.patient(t)); err != nil || exit.Cause != sandbox.Destroyed {
		t.Errorf("%+v, %v", exit, err)
	}
}
