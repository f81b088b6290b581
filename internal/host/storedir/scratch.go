package storedir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

const scratchLock = ".lock"

// Scratch makes an empty directory below parent for what does not outlive its
// maker; release removes it. While the maker lives, ReapScratch leaves it alone.
func Scratch(ctx context.Context, parent string) (dir string, release func() error, err error) {
	file, err := os.CreateTemp(parent, "*"+scratchLock)
	if err != nil {
		return "", nil, err
	}
	name := file.Name()
	if err := file.Close(); err != nil {
		return "", nil, err
	}
	return scratch(ctx, name)
}

// ScratchNamed is Scratch of a name of the caller's, and waits until nobody else has
// it.
func ScratchNamed(ctx context.Context, parent, name string) (dir string, release func() error, err error) {
	return scratch(ctx, filepath.Join(parent, name+scratchLock))
}

func scratch(ctx context.Context, name string) (dir string, release func() error, err error) {
	// Not Try: whoever reaps may just be looking at it.
	lock, err := Acquire(ctx, name)
	if err != nil {
		return "", nil, err
	}
	dir = strings.TrimSuffix(name, scratchLock)
	err = os.RemoveAll(dir) // of a maker that died
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return "", nil, errors.Join(err, lock.Release())
	}
	return dir, func() error { return errors.Join(os.RemoveAll(dir), lock.Release()) }, nil
}

// ReapScratch removes the directories of makers that died, and counts them.
func ReapScratch(parent string) (count int, err error) {
	locks, err := filepath.Glob(filepath.Join(parent, "*"+scratchLock))
	for _, name := range locks {
		lock, lockErr := Try(name)
		if errors.Is(lockErr, ErrHeld) {
			continue
		}
		if lockErr != nil {
			return count, errors.Join(err, lockErr)
		}
		err = errors.Join(err, os.RemoveAll(strings.TrimSuffix(name, scratchLock)), lock.Release())
		count++
	}
	return count, err
}
