package lifetime

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

var errBusy = errors.New("the mount is busy")

// body is a sandbox that ends when it is killed.
type body struct {
	Lifetime
	killed chan bool // whether it was paused
}

func newBody() *body {
	b := &body{killed: make(chan bool, 9)}
	b.Begin("test", "one", func(paused bool) error { b.killed <- paused; return nil })
	return b
}

func (b *body) watch(log *slog.Logger) {
	<-b.killed
	b.Ended(func() sandbox.Exit { return sandbox.Exit{Cause: sandbox.Crashed} }, func() error { return errBusy }, log)
}

// TestTheFirstCauseCounts: who destroys is told what could not be removed, and else
// the log is.
func TestTheFirstCauseCounts(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*body)
		want sandbox.Cause
		told bool
	}{
		"destroyed, then expired": {func(b *body) { b.End(sandbox.Destroyed); b.End(sandbox.Expired) }, sandbox.Destroyed, false},
		"expired":                 {func(b *body) { b.Limit(time.Nanosecond) }, sandbox.Expired, true},
		"by itself":               {func(b *body) { b.killed <- false }, sandbox.Crashed, true},
	} {
		t.Run(name, func(t *testing.T) {
			var logged bytes.Buffer
			b := newBody()
			c.end(b)
			b.watch(slog.New(slog.NewTextHandler(&logged, nil)))
			if exit, err := b.Wait(t.Context()); err != nil || exit.Cause != c.want {
				t.Errorf("%+v, %v", exit, err)
			}
			if told := strings.Contains(logged.String(), errBusy.Error()); told != c.told {
				t.Errorf("logged %q", logged.String())
			}
			if err := b.Destroy(t.Context()); !errors.Is(err, errBusy) {
				t.Errorf("destroy: %v", err)
			}
			if err := b.Alive(); sandbox.ClassOf(err) != sandbox.NotFound {
				t.Errorf("alive: %v", err)
			}
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newBody().Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestWhatEndsIsNotPaused: paused, it could not die.
func TestWhatEndsIsNotPaused(t *testing.T) {
	b := newBody()
	pause := func() error { return b.SetPaused(true, func() error { return nil }) }
	if err := b.SetPaused(true, func() error { return errBusy }); !errors.Is(err, errBusy) || b.Paused() {
		t.Errorf("a pause that failed: %v, paused %t", err, b.Paused())
	}
	if err := pause(); err != nil || !b.Paused() {
		t.Errorf("pause: %v, paused %t", err, b.Paused())
	}
	if err := pause(); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Errorf("pause again: %v", err)
	}
	b.End(sandbox.Destroyed)
	if paused := <-b.killed; !paused {
		t.Error("who kills is not told that it is paused")
	}
	if err := pause(); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("pause what is ending: %v", err)
	}
	if err := b.Living(func(bool) error { return errBusy }); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("stop what is ending: %v", err)
	}
}
