package guestagent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"aether/sandbox"
)

// Fleet is the living instances of one driver. Its zero value is ready.
type Fleet struct {
	// Logger is told what could not be removed of an instance that ended by itself.
	// Nil means slog.Default().
	Logger *slog.Logger

	// gate is held for reading by those who make a sandbox: Close waits for them.
	gate   sync.RWMutex
	closed bool

	mu     sync.Mutex
	living map[*Instance]struct{}
}

// Enter begins the making of a sandbox; leave ends it. Errors: Conflict once the
// fleet is closed.
func (f *Fleet) Enter(driver string) (leave func(), err error) {
	f.gate.RLock()
	if f.closed {
		f.gate.RUnlock()
		return nil, &sandbox.Error{Class: sandbox.Conflict, Op: driver, Reason: "the driver is closed"}
	}
	return f.gate.RUnlock, nil
}

// Add begins to watch over an instance, between Enter and leave.
func (f *Fleet) Add(i *Instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.living == nil {
		f.living = map[*Instance]struct{}{}
	}
	f.living[i] = struct{}{}
	go i.watch(func() { f.forget(i) }, cmp.Or(f.Logger, slog.Default()))
}

func (f *Fleet) forget(i *Instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.living, i)
}

func (f *Fleet) all() []*Instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.living))
}

// Close ends all instances and lets no more be made. It is idempotent; first
// says whether this was the call that closed.
func (f *Fleet) Close(ctx context.Context) (first bool, err error) {
	f.gate.Lock()
	defer f.gate.Unlock()
	first, f.closed = !f.closed, true
	living := f.all()
	for _, i := range living {
		i.End(sandbox.Destroyed)
	}
	for _, i := range living {
		err = errors.Join(err, i.Destroy(ctx))
	}
	return first, err
}
