package cell

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"aether/internal/host/zygote"
)

// forks is what a cell keeps for being forked, and of having been.
type forks struct {
	forking  sync.Mutex // one fork at a time
	lastFork Forked
	closed   int // connections that the last checkpoint, of the cell or that it came from, does not carry over
	kept     keptTree

	// mu is for forked: a child may be ended while it is made.
	mu     sync.Mutex
	forked []*zygote.Fork // the cell's own processes, if it is a fork's child
}

// ConnectionsClosed implements sandbox.ConnectionReporter.
func (f *forks) ConnectionsClosed() int {
	defer f.hold()()
	return f.closed
}

// sample looks at what the cell's processes have used of their memory, before they
// end: the next children of the same source are then made with those pages.
func (f *forks) sample(log *slog.Logger) {
	for _, p := range f.setForked(nil) {
		if err := p.Sample(); err != nil { // it only saves time
			log.Debug("a fork's memory could not be looked at", "error", err)
		}
	}
}

// setForked gives those that there were.
func (f *forks) setForked(list []*zygote.Fork) (was []*zygote.Fork) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, f.forked = f.forked, list
	return was
}

func (f *forks) close() error { return f.kept.close() }

// hold keeps forks away until it is called again.
func (f *forks) hold() (release func()) {
	f.forking.Lock()
	return f.forking.Unlock
}

// resumed says that the cell runs again.
func (f *forks) resumed() {
	f.kept.mu.Lock()
	defer f.kept.mu.Unlock()
	f.kept.current = false
}

// keptTree keeps the zygotes of a cell for a while: the next checkpoint then has to
// copy only what was written since. They are let go when nobody forks any more, for
// they hold as much memory as the cell.
type keptTree struct {
	mu      sync.Mutex
	tree    *zygote.Tree
	expiry  *time.Timer // lets go of it
	prepare *time.Timer // prepares it for the next fork
	closed  bool
	// current says that the cell has been paused since the checkpoint was taken.
	current bool
}

const (
	// keepTree is how long zygotes wait for the next fork.
	keepTree = 30 * time.Second
	// settleFork is how long preparing for that is put off: the child that was just
	// made needs the processors.
	settleFork = 3 * time.Millisecond
)

// take gives the tree that is kept, if there is one, to the caller, and says whether
// the cell is still what it shows.
func (k *keptTree) take() (_ *zygote.Tree, current bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.taken()
}

// taken is take with the lock held.
func (k *keptTree) taken() (_ *zygote.Tree, current bool) {
	for _, timer := range []*time.Timer{k.expiry, k.prepare} {
		if timer != nil {
			timer.Stop()
		}
	}
	tree := k.tree
	k.tree = nil
	return tree, tree != nil && k.current
}

// keep takes a tree back. One of a paused cell is kept as long as that is.
func (k *keptTree) keep(tree *zygote.Tree, paused bool, log *slog.Logger) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return tree.Close()
	}
	k.tree, k.current = tree, paused
	k.prepare = time.AfterFunc(settleFork, func() { tree.PrepareWarm(log) })
	if !paused {
		k.expiry = time.AfterFunc(keepTree, func() { k.expire(log) })
	}
	return nil
}

// expire lets go of the tree. The lock is held meanwhile, so that close, who finds none, does
// not return before its processes have ended.
func (k *keptTree) expire(log *slog.Logger) {
	k.mu.Lock()
	defer k.mu.Unlock()
	tree, _ := k.taken()
	if err := tree.Close(); err != nil {
		log.Warn("zygotes could not be ended", "error", err)
	}
}

func (k *keptTree) close() error {
	tree, _ := k.take()
	k.mu.Lock()
	k.closed = true
	late := k.tree
	k.tree = nil
	k.mu.Unlock()
	return errors.Join(tree.Close(), late.Close())
}
