package daemon

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"aether/internal/host/storedir"
	"aether/sandbox"
)

// Reap is sandbox.Reaper's for a driver that works in dir: a daemon keeps the
// containers of programs that were killed. It meets the daemon and has reap remove
// them.
func Reap(dir string, meet func() error, reap func(runDir string) (int, error)) (int, error) {
	runDir, err := filepath.Abs(dir)
	if err != nil {
		return 0, err
	}
	if _, err := os.Stat(runDir); errors.Is(err, os.ErrNotExist) {
		return 0, nil // never used
	}
	if err := meet(); err != nil {
		// A daemon that is down is no failure for those who have never used it.
		if sandbox.ClassOf(err) == sandbox.Unavailable && len(locksIn(runDir)) == 0 {
			return 0, nil
		}
		return 0, err
	}
	return reap(runDir)
}

// Graveyard is the locks of dead programs, held.
type Graveyard struct {
	runDir string
	locks  map[string]*storedir.Lock // by their files
}

// OpenGraveyard takes the locks of the dead in a directory. Close must follow.
func OpenGraveyard(runDir string) Graveyard {
	g := Graveyard{runDir, map[string]*storedir.Lock{}}
	for _, path := range locksIn(runDir) {
		g.holds(path)
	}
	return g
}

// Has says that a container with this label is a dead program's.
func (g Graveyard) Has(label string) bool {
	path, ours := lockOf(label, g.runDir)
	return ours && g.holds(path)
}

// holds says that the program of a lock is dead. So is one whose lock is missing:
// it was reaped while the daemon was still making a container for it.
func (g Graveyard) holds(path string) bool {
	if g.locks[path] != nil {
		return true
	}
	lock, err := storedir.Try(path)
	if err != nil {
		return false
	}
	g.locks[path] = lock
	return true
}

// Locks are the files of the locks that are held now.
func (g Graveyard) Locks() []string { return slices.Collect(maps.Keys(g.locks)) }

// Close removes the locks.
func (g Graveyard) Close() (err error) {
	for _, lock := range g.locks {
		err = errors.Join(err, lock.Release())
	}
	return err
}
