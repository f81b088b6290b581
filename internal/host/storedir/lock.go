//go:build unix

package storedir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// ErrHeld says that another holder, in this program or another, has the lock.
var ErrHeld = errors.New("storedir: the lock is held")

const (
	firstWait = time.Millisecond
	longWait  = 50 * time.Millisecond
)

// Lock is an exclusive lock named by a file. Two holders exclude each other also
// within one program. It ends with its holder, however that dies.
type Lock struct{ file *os.File }

// Acquire waits for the lock until the context ends.
func Acquire(ctx context.Context, path string) (*Lock, error) {
	for wait := firstWait; ; wait = min(2*wait, longWait) {
		lock, err := Try(path)
		if !errors.Is(err, ErrHeld) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("storedir: wait for %s: %w", path, ctx.Err())
		case <-time.After(wait):
		}
	}
}

// Try takes the lock or answers ErrHeld at once.
func Try(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(file, path); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Lock{file: file}, nil
}

func lockFile(file *os.File, path string) error {
	err := flock(file, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrHeld
	}
	if err != nil {
		return err
	}
	// The last holder may have removed the file between our open and our lock:
	// a lock on a file without a name excludes nobody.
	if !stillNamed(file, path) {
		return ErrHeld
	}
	return nil
}

func stillNamed(file *os.File, path string) bool {
	named, err := os.Lstat(path)
	if err != nil {
		return false
	}
	opened, err := file.Stat()
	return err == nil && os.SameFile(named, opened)
}

// Release gives the lock up and removes its file.
func (l *Lock) Release() error {
	// Removed while still held, so that nobody can take it in between.
	return errors.Join(os.Remove(l.file.Name()), l.file.Close())
}

func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if err != syscall.EINTR {
			return os.NewSyscallError("flock", err)
		}
	}
}
