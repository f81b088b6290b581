package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"aether/internal/host/storedir"
)

// Store keeps unpacked layers and what is known of images in one directory.
// Any number of goroutines and programs of one user may use it at a time: what
// has its final name is whole and never changes, and a program that dies leaves
// only work that the next Open removes.
//
//	layers/HEX  an unpacked layer, by diff id, or a host skeleton, by its inputs
//	work/HEX    a layer on its way, which belongs to the holder of
//	locks/HEX   its lock
//	images/HEX  a record of what a reference means, by the reference's digest
//	host        what the host looked like when its skeleton was made
//	users       locked by every program that uses the store
type Store struct {
	dir      string
	hostRoot string
	limits   limits
	users    *storedir.Shared // programs that use the store

	mu   sync.Mutex
	host hostCache
}

// Open uses the store in dir, which is made if it is missing, and removes what
// dead programs left in it. Errors: Denied for a directory that others can change.
func Open(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, hostRoot: "/", limits: limits{bytes: maxBytes, entries: maxEntries, overhead: maxOverhead}}
	if err := storedir.Prepare(dir, "layers", "work", "locks", "images"); err != nil {
		return nil, err
	}
	if s.users, err = storedir.Share(filepath.Join(dir, "users")); err != nil {
		return nil, err
	}
	_, err = s.Reap(context.Background())
	return s, err
}

// Reap removes layers that were being unpacked by programs that died, never those
// of living ones, and says how many.
func (s *Store) Reap(ctx context.Context) (int, error) {
	left, err := os.ReadDir(filepath.Join(s.dir, "work"))
	if err != nil {
		return 0, err
	}
	count := 0
	for _, entry := range left {
		if err := ctx.Err(); err != nil {
			return count, err
		}
		reaped, err := s.reapOne(entry.Name())
		if err != nil {
			return count, err
		}
		if reaped {
			count++
		}
	}
	return count, nil
}

func (s *Store) reapOne(name string) (bool, error) {
	lock, err := storedir.Try(s.lockFile(name))
	if errors.Is(err, storedir.ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	err = os.RemoveAll(s.workDir(name))
	return err == nil, errors.Join(err, lock.Release())
}

// ensureDir makes the directory of a name, unless it is there, by filling a fresh
// one and renaming it. Of several callers, in this program or others, one does
// the work while the rest wait for it.
func (s *Store) ensureDir(ctx context.Context, hex string, fill func(dir string) error) error {
	if there, err := exists(s.layerDir(hex)); there || err != nil {
		return err
	}
	lock, err := storedir.Acquire(ctx, s.lockFile(hex))
	if err != nil {
		return err
	}
	return errors.Join(s.fillLocked(hex, fill), lock.Release())
}

func (s *Store) fillLocked(hex string, fill func(dir string) error) error {
	final, work := s.layerDir(hex), s.workDir(hex)
	if there, err := exists(final); there || err != nil {
		return err
	}
	// A holder of the lock that died may have left a part.
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	if err := os.Mkdir(work, 0o755); err != nil {
		return err
	}
	err := fill(work)
	if err == nil {
		// The final name promises whole content, also after a loss of power.
		err = storedir.Sync(work)
	}
	if err == nil {
		err = os.Rename(work, final)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(work))
	}
	return nil
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (s *Store) layerDir(hex string) string { return filepath.Join(s.dir, "layers", hex) }
func (s *Store) workDir(hex string) string  { return filepath.Join(s.dir, "work", hex) }
func (s *Store) lockFile(hex string) string { return filepath.Join(s.dir, "locks", hex) }
