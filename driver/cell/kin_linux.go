package cell

import (
	"context"
	"log/slog"
	"sync"

	"aether/image/snapshot"
)

// kin is the cells that were forked from each other, or restored from snapshots of such.
// They have most of their memory in common: the first snapshot of one of them is the basis
// over which those of the others are kept.
type kin struct {
	mu      sync.Mutex
	members int
	basis   *snapshot.Basis
}

// relatives is the family of a cell.
func (i *instance) relatives() *kin {
	for {
		if f := i.kin.Load(); f != nil {
			return f
		}
		if f := (&kin{members: 1}); i.kin.CompareAndSwap(nil, f) {
			return f
		}
	}
}

// joinFamily has a child be of the family of the cell that it is forked from.
func (child *instance) joinFamily(source *instance) {
	f := source.relatives()
	f.mu.Lock()
	f.members++
	f.mu.Unlock()
	child.kin.Store(f)
	if child.Alive() != nil {
		child.leaveFamily() // nobody else will
	}
}

// leaveFamily is for the end of a cell; with the last one the basis goes.
func (i *instance) leaveFamily() {
	f := i.kin.Swap(nil)
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.members--; f.members == 0 {
		f.forget(i.engine.log)
	}
}

// forget gives the basis back. f.mu is held.
func (f *kin) forget(log *slog.Logger) {
	if err := f.basis.Release(); err != nil { // it goes with this program
		log.Warn("cell: what snapshots have in common could not be let go of", "err", err)
	}
	f.basis = nil
}

// common is the basis, or nil.
func (f *kin) common() *snapshot.Basis {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.basis
}

// learn has a snapshot be the basis of those to come, if there is none. What was taken of a
// cell that has no relatives is let go of with its snapshot.
func (f *kin) learn(ctx context.Context, store *snapshot.Store, rec snapshot.Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.basis != nil || f.members == 0 || f.members == 1 && len(rec.Composed) == 0 {
		return nil
	}
	var err error
	f.basis, err = store.NewBasis(ctx, rec)
	return err
}
