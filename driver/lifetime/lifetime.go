// Package lifetime is how a sandbox ends, the same for the instances of every
// driver: by whom it is ended first, who is told, what cannot be removed, and that
// nothing is paused which is about to end.
package lifetime

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"aether/sandbox"
)

// CleanupTime bounds what is done to remove a sandbox, whatever its caller's
// context says.
const CleanupTime = 20 * time.Second

// Lifetime is embedded in the instance of a sandbox. It implements ID, Wait and
// Destroy of sandbox.Instance.
type Lifetime struct {
	driver string
	id     string
	kill   func(paused bool) error
	timer  *time.Timer

	mu     sync.Mutex
	paused bool
	cause  sandbox.Cause // why it is being ended, if it is
	ended  chan struct{} // closed when nothing is left
	exit   sandbox.Exit
	err    error // what could not be ended or removed
}

// Begin begins the lifetime of a sandbox of a driver. kill begins the end of everything
// inside, also of what is paused; it may be called again, but not after the end.
func (l *Lifetime) Begin(driver, id string, kill func(paused bool) error) {
	l.driver, l.id, l.kill, l.ended = driver, id, kill, make(chan struct{})
}

// Limit ends the sandbox after a time, unless that is zero.
func (l *Lifetime) Limit(life time.Duration) {
	if life > 0 {
		l.timer = time.AfterFunc(life, func() { l.End(sandbox.Expired) })
	}
}

// ID implements sandbox.Instance.
func (l *Lifetime) ID() string { return l.id }

// Alive is NotFound once the sandbox has ended.
func (l *Lifetime) Alive() error {
	select {
	case <-l.ended:
		return &sandbox.Error{Class: sandbox.NotFound, Op: l.driver + ": " + l.id, Reason: "the sandbox has ended"}
	default:
		return nil
	}
}

// Wait implements sandbox.Instance.
func (l *Lifetime) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-l.ended:
		return l.exit, nil
	case <-ctx.Done():
		return sandbox.Exit{}, ctx.Err()
	}
}

// Destroy implements sandbox.Instance.
func (l *Lifetime) Destroy(context.Context) error {
	l.End(sandbox.Destroyed)
	select {
	case <-l.ended:
		return l.err
	case <-time.After(CleanupTime + time.Second):
		return &sandbox.Error{Class: sandbox.Timeout, Op: l.driver + ": destroy " + l.id, Reason: "its processes have not ended", Retry: true}
	}
}

// End begins the end; the first cause is the one that counts.
func (l *Lifetime) End(cause sandbox.Cause) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Alive() != nil {
		return
	}
	if l.cause == "" {
		l.cause = cause
	}
	l.err = errors.Join(l.err, l.kill(l.paused))
}

// Ended is called once, when nothing inside runs any more. unasked says how
// it ended in case nobody asked for it; release gives back everything that was acquired. What
// fails is told to the caller of Destroy, or else to log.
func (l *Lifetime) Ended(unasked func() sandbox.Exit, release func() error, log *slog.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.exit.Cause = l.cause; l.cause == "" {
		l.exit = unasked()
	}
	l.err = errors.Join(l.err, release())
	if l.err != nil && l.cause != sandbox.Destroyed {
		log.Error(l.driver+": a sandbox that has ended could not be removed", "sandbox", l.id, "cause", l.exit.Cause, "err", l.err)
	}
	close(l.ended)
}

// SetPaused changes between paused and running by calling change. Errors:
// Conflict where it is so already, NotFound once the sandbox is ending.
func (l *Lifetime) SetPaused(paused bool, change func() error) error {
	return l.Living(func(was bool) error {
		if was == paused {
			return &sandbox.Error{Class: sandbox.Conflict, Op: l.driver + ": pause " + l.id,
				Reason: map[bool]string{true: "it is paused", false: "it is not paused"}[paused]}
		}
		if err := change(); err != nil {
			return err
		}
		l.paused = paused
		return nil
	})
}

// Paused says whether the sandbox is paused.
func (l *Lifetime) Paused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.paused
}

// Living calls fn, which may stop what runs inside, while nobody ends or pauses the
// sandbox. Errors: NotFound once the sandbox is ending, for stopped it could not die.
func (l *Lifetime) Living(fn func(paused bool) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Alive(); err != nil {
		return err
	}
	if l.cause != "" {
		return &sandbox.Error{Class: sandbox.NotFound, Op: l.driver + ": " + l.id, Reason: "the sandbox is ending"}
	}
	return fn(l.paused)
}
