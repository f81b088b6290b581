package cell

import (
	"errors"
	"sync"
	"time"

	"aether/internal/host/confine"
)

// forks is what a cell keeps for being forked.
type forks struct {
	forking  sync.Mutex // one fork at a time
	lastFork Forked
	imprint  imprints
	lessons  []lesson
}

// lesson is a process of a fork's child, from which others can learn.
type lesson struct {
	process *process
	twin    *confine.Twin
	age     int
}

// teach shows what the cell's processes have used of their memory, before they
// end.
func (f *forks) teach() {
	for _, l := range f.lessons {
		_ = l.twin.Learn(l.process.Process, l.age) // it only saves time
	}
	f.lessons = nil
}

func (f *forks) close() error { return f.imprint.close() }

// hold keeps forks away until it is called again.
func (f *forks) hold() (release func()) {
	f.forking.Lock()
	return f.forking.Unlock
}

// resumed says that the cell runs again.
func (f *forks) resumed() {
	f.imprint.mu.Lock()
	defer f.imprint.mu.Unlock()
	f.imprint.current = false
}

// imprints keeps the last imprint of a cell for a while: the next one then has to
// copy only what was written since. It is let go when nobody forks any more, for
// it holds as much memory as the cell.
type imprints struct {
	mu     sync.Mutex
	kept   *confine.Imprint
	timer  *time.Timer // lets go of it
	spare  *time.Timer // prepares it for the next fork
	closed bool
	// current says that the cell has been paused since it was taken.
	current bool
}

const (
	// keepImprint is how long an imprint waits for the next fork.
	keepImprint = 30 * time.Second
	// settleFork is how long preparing for that is put off: the child that was just
	// made needs the processors.
	settleFork = 3 * time.Millisecond
)

// take gives the imprint that is kept, if there is one, to the caller, and says
// whether the cell is still what it shows.
func (i *imprints) take() (_ *confine.Imprint, current bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, timer := range []*time.Timer{i.timer, i.spare} {
		if timer != nil {
			timer.Stop()
		}
	}
	kept := i.kept
	i.kept = nil
	return kept, kept != nil && i.current
}

// keep takes an imprint back. One of a paused cell is kept as long as that is.
func (i *imprints) keep(imprint *confine.Imprint, paused bool) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return imprint.Close()
	}
	i.kept, i.current = imprint, paused
	i.spare = time.AfterFunc(settleFork, imprint.StandBy)
	if !paused {
		i.timer = time.AfterFunc(keepImprint, i.expire)
	}
	return nil
}

func (i *imprints) expire() {
	kept, _ := i.take()
	_ = kept.Close() // nobody is there to hear of it
}

func (i *imprints) close() error {
	kept, _ := i.take()
	i.mu.Lock()
	i.closed = true
	late := i.kept
	i.kept = nil
	i.mu.Unlock()
	return errors.Join(kept.Close(), late.Close())
}
