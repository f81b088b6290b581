package qemu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"aether/internal/host/storedir"
)

const lockSuffix = ".lock"

// newFork makes a directory for a snapshot, with a lock that tells programs that
// reap that its maker lives.
func newFork(ctx context.Context, parent string) (string, *storedir.Lock, error) {
	file, err := os.CreateTemp(parent, "*"+lockSuffix)
	if err != nil {
		return "", nil, err
	}
	name := file.Name()
	if err := file.Close(); err != nil {
		return "", nil, err
	}
	// Not Try: whoever reaps may just be looking at it.
	lock, err := storedir.Acquire(ctx, name)
	if err != nil {
		return "", nil, err
	}
	dir := strings.TrimSuffix(name, lockSuffix)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, errors.Join(err, lock.Release())
	}
	return dir, lock, nil
}

// reapWork removes the directories of makers that died.
func reapWork(parent string) (int, error) {
	locks, err := filepath.Glob(filepath.Join(parent, "*"+lockSuffix))
	count := 0
	for _, name := range locks {
		lock, lockErr := storedir.Try(name)
		if errors.Is(lockErr, storedir.ErrHeld) {
			continue
		}
		if lockErr != nil {
			return count, lockErr
		}
		err = errors.Join(err, os.RemoveAll(strings.TrimSuffix(name, lockSuffix)), lock.Release())
		count++
	}
	return count, err
}
