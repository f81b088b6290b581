package vmm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"aether/internal/host/storedir"
)

// placesOf are where programs have directories that must not outlive them: those
// of machines, of snapshots on the way to forks, and of templates that are half made.
func placesOf(opts Options) []string {
	return []string{homesDir(opts), forksDir(opts), templateWork(opts)}
}

func homesDir(opts Options) string     { return filepath.Join(opts.StateDir, "running") }
func forksDir(opts Options) string     { return filepath.Join(opts.StateDir, "forks") }
func kernelsDir(opts Options) string   { return filepath.Join(opts.StateDir, "vmlinux") }
func templatesDir(opts Options) string { return filepath.Join(opts.StateDir, "templates") }
func templateWork(opts Options) string { return filepath.Join(templatesDir(opts), "work") }

const lockSuffix = ".lock"

// place is a directory with a lock that tells programs that reap that its maker
// lives.
type place struct {
	dir  string
	lock *storedir.Lock
}

func newPlace(ctx context.Context, parent string) (*place, error) {
	file, err := os.CreateTemp(parent, "*"+lockSuffix)
	if err != nil {
		return nil, err
	}
	name := file.Name()
	if err := file.Close(); err != nil {
		return nil, err
	}
	// Not Try: whoever reaps may just be looking at it.
	lock, err := storedir.Acquire(ctx, name)
	if err != nil {
		return nil, errors.Join(err, os.Remove(name))
	}
	dir := strings.TrimSuffix(name, lockSuffix)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return &place{dir, lock}, nil
}

func (p *place) remove() error { return errors.Join(os.RemoveAll(p.dir), p.lock.Release()) }

// reapPlaces removes the directories of makers that died.
func reapPlaces(parent string) (int, error) {
	locks, err := filepath.Glob(filepath.Join(parent, "*"+lockSuffix))
	count := 0
	for _, name := range locks {
		lock, lockErr := storedir.Try(name)
		if errors.Is(lockErr, storedir.ErrHeld) {
			continue
		}
		if lockErr != nil {
			return count, errors.Join(err, lockErr)
		}
		dead := place{strings.TrimSuffix(name, lockSuffix), lock}
		err = errors.Join(err, dead.remove())
		count++
	}
	return count, err
}
