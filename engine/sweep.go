package engine

import (
	"maps"
	"sync"
	"time"
)

// sweepAfter is how long checkpoints are removed before their drivers are asked to remove
// what only those needed: many are removed at once, and the asking reads a whole store.
var sweepAfter = 2 * time.Second

// sweeper knows which drivers may hold contents of checkpoints that are gone. Drivers
// store contents once for all snapshots, and cannot see when the last of these is removed.
type sweeper struct {
	mu    sync.Mutex
	dirty map[string]bool
	wake  chan struct{}
}

func newSweeper() *sweeper {
	return &sweeper{dirty: map[string]bool{}, wake: make(chan struct{}, 1)}
}

// note says that a checkpoint of a driver was removed.
func (s *sweeper) note(driver string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty[driver] = true
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// noteEnd says that an instance has ended which may have been made of a checkpoint, and of
// which its driver may hold contents.
func (f *fleet) noteEnd(r record) {
	if r.ofCheckpoint() {
		f.sweeper.note(r.Driver)
	}
}

// ofCheckpoint says that the instance, or what it was forked from, was made of one.
func (r record) ofCheckpoint() bool { return r.Instances > 1 || r.Snapshot != "" || r.Restored }

// take gives the drivers that were noted.
func (s *sweeper) take() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := maps.Clone(s.dirty)
	clear(s.dirty)
	return taken
}

// sweep has drivers reap until the engine is closed. What is left then, the next engine
// finds.
func (f *fleet) sweep() {
	for {
		select {
		case <-f.engine.life.Done():
			return
		case <-f.sweeper.wake:
		}
		select {
		case <-f.engine.life.Done():
			return
		case <-time.After(sweepAfter):
		}
		for name := range f.sweeper.take() {
			f.reapOne(f.engine.life, name)
		}
	}
}
