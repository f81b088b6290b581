package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"aether/internal/host/storedir"
)

// Reap removes what dead programs were writing, layers that no living program
// uses and no snapshot is left of, and contents of no snapshot. It says how many
// of all these.
func (s *Store) Reap(ctx context.Context) (int, error) {
	count, err := s.reapWork()
	if err != nil {
		return count, err
	}
	layers, err := s.reapLayers(ctx)
	if err != nil {
		return count + layers, err
	}
	blobs, err := s.reapBlobs(ctx)
	return count + layers + blobs, err
}

func (s *Store) reapLayers(ctx context.Context) (count int, err error) {
	lock, err := s.lockFor(ctx, "layers")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	used, err := s.used()
	if err != nil {
		return 0, err
	}
	if count, err = s.reapBoots(); err != nil {
		return count, err
	}
	layers, err := os.ReadDir(s.path("layers", s.boot))
	if err != nil {
		return count, err
	}
	for _, entry := range layers {
		if err := ctx.Err(); err != nil {
			return count, err
		}
		kept, err := s.hasSnapshot(entry.Name())
		if err != nil {
			return count, err
		}
		if used[entry.Name()] || kept {
			continue
		}
		if err := s.removeAtOnce(s.layer(entry.Name())); err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}

// reapBoots removes the layers of boots that are over.
func (s *Store) reapBoots() (count int, err error) {
	boots, err := os.ReadDir(s.path("layers"))
	if err != nil {
		return 0, err
	}
	for _, entry := range boots {
		if entry.Name() == s.boot {
			continue
		}
		if err := s.removeAtOnce(s.path("layers", entry.Name())); err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}

// used are the layers of living programs. What dead ones left is removed.
func (s *Store) used() (map[string]bool, error) {
	locks, err := filepath.Glob(s.path("programs", "*"+lockSuffix))
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, path := range locks {
		program := strings.TrimSuffix(path, lockSuffix)
		lock, err := storedir.Try(path)
		if err == nil {
			err = errors.Join(os.RemoveAll(program), lock.Release())
		} else if errors.Is(err, storedir.ErrHeld) {
			err = list(program, used)
		}
		if err != nil {
			return nil, err
		}
	}
	return used, nil
}

func list(dir string, into map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, entry := range entries {
		into[entry.Name()] = true
	}
	return nil
}

// hasSnapshot says whether the layer's manifest has a name besides those in its
// own directory and in the store.
func (s *Store) hasSnapshot(layer string) (bool, error) {
	names, err := links(filepath.Join(s.layer(layer), manifestName))
	if err != nil {
		return false, err
	}
	in, err := exists(s.blob(layer))
	if in {
		names--
	}
	return names > 1, err
}

func links(path string) (uint64, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("snapshot: the file system does not count links")
	}
	return uint64(stat.Nlink), nil
}

// removeAtOnce takes a directory away in one step, for a removal takes time.
func (s *Store) removeAtOnce(dir string) error {
	work, err := s.newWork()
	if err != nil {
		return err
	}
	err = os.Rename(dir, filepath.Join(work.dir, filepath.Base(dir)))
	return errors.Join(err, work.remove())
}

// reapBlobs removes contents that only the store names.
func (s *Store) reapBlobs(ctx context.Context) (count int, err error) {
	lock, err := s.lockFor(ctx, "blobs")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	blobs, err := os.ReadDir(s.path("blobs"))
	if err != nil {
		return 0, err
	}
	for _, entry := range blobs {
		if err := ctx.Err(); err != nil {
			return count, err
		}
		names, err := links(s.blob(entry.Name()))
		if err != nil {
			return count, err
		}
		if names > 1 {
			continue
		}
		if err := os.Remove(s.blob(entry.Name())); err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}
