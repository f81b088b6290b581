//go:build unix

package storedir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// Shared says that this program uses what a file stands for, beside any number of others.
// It ends with the program, however that dies.
type Shared struct {
	mu   sync.Mutex
	file *os.File
}

// sharing are the files that this program uses, each once, by path.
var sharing = struct {
	mu    sync.Mutex
	files map[string]*Shared
}{files: map[string]*Shared{}}

// Share begins to use what a file stands for, which stays there.
func Share(path string) (*Shared, error) {
	sharing.mu.Lock()
	defer sharing.mu.Unlock()
	if s := sharing.files[path]; s != nil {
		if stillNamed(s.file, path) {
			return s, nil
		}
		s.file.Close() // nobody can find it any more
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(file, syscall.LOCK_SH); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	sharing.files[path] = &Shared{file: file}
	return sharing.files[path], nil
}

// Alone runs fn while no other program uses it. Errors: ErrHeld if one does; those of fn.
func (s *Shared) Alone(ctx context.Context, fn func() error) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The kernel lets go of the shared lock before it gives the other: of two who want to
	// be alone at once, each would find nobody.
	turn, err := Acquire(ctx, s.file.Name()+".alone")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, turn.Release()) }()
	defer func() { err = errors.Join(err, flock(s.file, syscall.LOCK_SH)) }()
	if err := flock(s.file, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return ErrHeld
		}
		return fmt.Errorf("storedir: %w", err)
	}
	return fn()
}
