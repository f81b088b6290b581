package drivertest

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"aether/guest"
	"aether/sandbox"
)

func (s *suite) lifecycle() []test {
	return []test{
		{"identity", s.identity}, {"wait by many", s.waitByMany}, {"lifetime", s.lifetime}, {"destroy twice", s.destroyTwice},
		{"destroy during exec", s.destroyDuringExec}, {"exec while destroyed", s.execWhileDestroyed}, {"after the end", s.afterTheEnd},
		{"cancelled contexts", s.cancelled}, {"impatient create", s.impatientCreate},
	}
}

func (s *suite) identity(t *testing.T) {
	b := s.make(t, sandbox.Spec{ID: "conformance-1"})
	if b.ID() != "conformance-1" {
		t.Errorf("the id is %q", b.ID())
	}
	minted := s.make(t, sandbox.Spec{})
	if err := (sandbox.Spec{ID: minted.ID()}).Validate(); err != nil || len(minted.ID()) < 16 {
		t.Errorf("minted id %q: %v", minted.ID(), err)
	}
}

func (s *suite) waitByMany(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	impatient, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := b.Instance.Wait(impatient); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the end of a waiter's context gives %v", err)
	}
	b.sh(t, "true") // and does not touch the sandbox
	answers := make(chan string)
	wait := func() {
		exit, err := b.Instance.Wait(s.patient(t))
		answers <- fmt.Sprint(exit.Cause, err)
	}
	for range 8 {
		go wait()
	}
	b.destroy(t)
	go wait()
	for range 9 {
		if got, want := <-answers, fmt.Sprint(sandbox.Destroyed, error(nil)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func (s *suite) lifetime(t *testing.T) {
	life := s.within(400 * time.Millisecond)
	began := time.Now()
	b := s.make(t, sandbox.Spec{Timeouts: sandbox.Timeouts{Lifetime: life}})
	exit, err := b.Instance.Wait(s.patient(t))
	if took := time.Since(began); err != nil || exit.Cause != sandbox.Expired || took < life {
		t.Errorf("%+v, %v after %v", exit, err, took)
	}
	b.destroy(t)
	if exit, err := b.Instance.Wait(s.patient(t)); err != nil || exit.Cause != sandbox.Expired {
		t.Errorf("destroying an expired one makes it %v (%v)", exit.Cause, err)
	}
}

func (s *suite) destroyTwice(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	s.each(t, 8, func(int) error { return b.Destroy(t.Context()) })
	b.destroy(t)
}

func (s *suite) destroyDuringExec(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	running := b.start(t, "sleep 1000 & sleep 1000")
	ended := make(chan bool, 1)
	go func() {
		status, err := running.Wait()
		ended <- err != nil || status.Signal == syscall.SIGKILL
	}()
	b.destroy(t)
	select {
	case cut := <-ended:
		if !cut {
			t.Error("a command that was cut off is said to have ended by itself")
		}
	case <-time.After(s.patience()):
		t.Error("its client still waits")
	}
}

// execWhileDestroyed starts commands until the sandbox is gone: none may hang.
func (s *suite) execWhileDestroyed(t *testing.T) {
	for range s.few(4) {
		b := s.make(t, sandbox.Spec{})
		gone := make(chan error, 4)
		for range cap(gone) {
			go func() { gone <- execUntilGone(s.patient(t), b) }()
		}
		time.Sleep(s.within(10 * time.Millisecond))
		b.destroy(t)
		for range cap(gone) {
			if err := <-gone; err != nil {
				t.Error(err)
			}
		}
	}
}

func execUntilGone(ctx context.Context, b *box) error {
	c := guest.NewClient(b.Dial, guest.ClientOptions{})
	defer c.Close()
	for range 10_000 {
		if _, err := exec(ctx, c, guest.Cmd{Path: "/bin/true"}); err != nil {
			return context.Cause(ctx)
		}
	}
	return errors.New("the sandbox does not end")
}

func (s *suite) afterTheEnd(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	b.destroy(t)
	_, err := b.Dial(t.Context())
	wantClass(t, err, sandbox.NotFound)
	_, err = b.Stats(t.Context())
	wantClass(t, err, sandbox.NotFound)
	if p, ok := b.Instance.(sandbox.Pauser); ok {
		wantClass(t, p.Pause(t.Context()), sandbox.NotFound)
		wantClass(t, p.Resume(t.Context()), sandbox.NotFound)
	}
}

// cancelled: the end of Create's context does not touch the sandbox, and Destroy
// does its work with one that has ended.
func (s *suite) cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	instance, err := s.driver.Create(ctx, sandbox.Spec{Image: s.Image})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	b := s.wrap(t, instance)
	b.sh(t, "true")
	if err := instance.Destroy(ctx); err != nil {
		t.Error(err)
	}
	if _, err := instance.Dial(t.Context()); err == nil {
		t.Error("it lives")
	}
}

func (s *suite) impatientCreate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	instance, err := s.driver.Create(ctx, sandbox.Spec{Image: s.Image})
	if err != nil {
		return
	}
	s.wrap(t, instance).sh(t, "true") // it was quicker than the context
}

// closing: Close ends every sandbox, and no more can be made.
func (c Config) closing(t *testing.T) {
	driver := c.New(t.TempDir())
	closeAfter(t, driver)
	closer, ok := driver.(sandbox.Closer)
	if !ok {
		return
	}
	s := &suite{Config: c, driver: driver}
	boxes := []*box{s.make(t, sandbox.Spec{}), s.make(t, sandbox.Spec{})}
	boxes[0].start(t, "exec sleep 1000")
	for range 2 {
		if err := closer.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range boxes {
		if exit, err := b.Instance.Wait(c.patient(t)); err != nil || exit.Cause != sandbox.Destroyed {
			t.Errorf("%+v, %v", exit, err)
		}
	}
	_, err := driver.Create(t.Context(), sandbox.Spec{Image: c.Image})
	wantClass(t, err, sandbox.Conflict)
}
