package guestagent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
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
	living sync.Map // of *Instance
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
	f.living.Store(i, nil)
	go i.watch(func() { f.living.Delete(i) }, cmp.Or(f.Logger, slog.Default()))
}

// Close ends all instances and lets no more be made. It is idempotent; first
// says whether this was the call that closed.
func (f *Fleet) Close(ctx context.Context) (first bool, err error) {
	f.gate.Lock()
	defer f.gate.Unlock()
	first, f.closed = !f.closed, true
	for i := range f.living.Range {
		i.(*Instance).End(sandbox.Destroyed)
	}
	for i := range f.living.Range {
		err = errors.Join(err, i.(*Instance).Destroy(ctx))
	}
	return first, err
}
