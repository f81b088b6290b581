package drivertest

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

func (s *suite) forks() []test {
	return []test{{"children", s.fork}, {"all or none", s.forkAllOrNone}, {"impatient", s.impatientFork}}
}

func (s *suite) fork(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	forker := b.Instance.(sandbox.Forker)
	b.sh(t, "echo shared > /tmp/state")
	var count func(*box) int
	if forker.ForkFidelity() != sandbox.Filesystem {
		count = s.beginCounting(t, b)
	}
	var instances []sandbox.Instance
	err := s.soon(func() (err error) {
		instances, err = forker.Fork(s.patient(t), make([]sandbox.Spec, s.few(4)))
		return err
	})
	if class := sandbox.ClassOf(err); err != nil && (class == sandbox.Unavailable || class == sandbox.Unsupported) {
		t.Skipf("this host cannot: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for n, instance := range instances {
		child, own := s.wrap(t, instance), strconv.Itoa(n)
		if got := child.sh(t, "cat /tmp/state; echo "+own+" > /tmp/state; cat /tmp/state"); got != "shared\n"+own {
			t.Errorf("child %s says %q", own, strings.ReplaceAll(got, "\n", " "))
		}
		if count != nil {
			s.goesOn(t, child, count)
		}
	}
	if got := b.sh(t, "cat /tmp/state"); got != "shared" {
		t.Errorf("a child changed its source: %q", got)
	}
	b.destroy(t)
	s.wrap(t, instances[0]).sh(t, "true")
}

func (s *suite) forkAllOrNone(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	forker := b.Instance.(sandbox.Forker)
	children, err := forker.Fork(s.patient(t), []sandbox.Spec{{}, {ID: "../bad"}})
	if err == nil || len(children) > 0 {
		t.Errorf("%v, %v: a bad child was made", children, err)
	}
	b.sh(t, "true")
}

// impatientFork: whoever is not waited for until the end of a fork leaves the source as it
// was: its commands go on, and the next fork is made.
func (s *suite) impatientFork(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	forker := b.Instance.(sandbox.Forker)
	var count func(*box) int
	if forker.ForkFidelity() != sandbox.Filesystem {
		count = s.beginCounting(t, b)
	}
	fork := func(ctx context.Context) error {
		instances, err := forker.Fork(ctx, make([]sandbox.Spec, 1))
		for _, instance := range instances {
			s.wrap(t, instance).destroy(t)
		}
		return err
	}
	for patience := time.Millisecond; patience < time.Second; patience *= 3 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := fork(ctx)
		cancel()
		if class := sandbox.ClassOf(err); err != nil && (class == sandbox.Unavailable || class == sandbox.Unsupported) {
			t.Skipf("this host cannot: %v", err)
		}
		if count != nil {
			s.goesOn(t, b, count)
		}
		if err == nil {
			return // more patience changes nothing
		}
	}
	if err := s.soon(func() error { return fork(s.patient(t)) }); err != nil {
		t.Errorf("after forks that nobody waited for: %v", err)
	}
}
