package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"aether/internal/host/storedir"
)

// Store keeps the contents of snapshots and the layers unpacked of them. Any
// number of goroutines and programs of one user may use it at a time.
//
//	blobs/HEX        contents and manifests, by SHA-256
//	layers/BOOT/HEX  an unpacked snapshot, by its manifest: its blobs, and the tree
//	programs/NAME    the layers that a living program uses, and contents that it
//	                 keeps (blob-HEX), by its lock programs/NAME.lock
//	work/NAME        what is being written, by the holder of the
//	                 lock locks/NAME
//
// Layers are not made durable, which takes long, so they are good for one boot of
// the host only.
type Store struct {
	dir  string
	boot string

	mu    sync.Mutex
	users map[string]int // of layers in this program, by manifest
	held  map[string]int // contents that it keeps, and for how many
	own   string         // its name, once it uses any
	lock  *storedir.Lock
	// checked are the digests of files that this program has checked.
	checked map[identity]string
}

const lockSuffix = ".lock"

// Open uses the store in dir, which is made if it is missing, and removes what
// dead programs were writing. Errors: Denied for a directory that others can
// change.
func Open(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	// Nobody else may pass: files in it have owners that are users of the host.
	for _, part := range []string{"", "blobs", "layers", "layers/" + boot, "programs", "work", "locks"} {
		name := filepath.Join(dir, part)
		if err := os.MkdirAll(name, 0o700); err != nil {
			return nil, err
		}
		if err := storedir.Prepare(name); err != nil {
			return nil, err
		}
	}
	s := &Store{dir: dir, boot: boot, users: map[string]int{}, held: map[string]int{}, checked: map[identity]string{}}
	_, err = s.reapWork()
	return s, err
}

// bootID tells this boot of the host from those before.
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// Close lets go of the layers that this program used.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.users)
	clear(s.held)
	if s.own == "" {
		return nil
	}
	err := os.RemoveAll(s.path("programs", s.own))
	s.own = ""
	return errors.Join(err, s.lock.Release())
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

func (s *Store) layer(manifest string) string { return s.path("layers", s.boot, manifest) }

func (s *Store) blob(digest string) string { return s.path("blobs", digest) }

// lockFor keeps the store's own records in step, for a moment.
func (s *Store) lockFor(ctx context.Context, what string) (*storedir.Lock, error) {
	return storedir.Acquire(ctx, s.path("locks", what))
}

// workplace is a directory that is removed with its program, if not before.
type workplace struct {
	dir  string
	lock *storedir.Lock
}

func (s *Store) newWork() (*workplace, error) {
	name := strings.ToLower(rand.Text())
	lock, err := storedir.Try(s.path("locks", name))
	if err != nil {
		return nil, err
	}
	w := &workplace{s.path("work", name), lock}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return w, nil
}

func (w *workplace) remove() error {
	return errors.Join(storedir.RemoveAll(w.dir), w.lock.Release())
}

// reapWork removes what dead programs were writing.
func (s *Store) reapWork() (count int, err error) {
	left, err := os.ReadDir(s.path("work"))
	if err != nil {
		return 0, err
	}
	for _, entry := range left {
		lock, err := storedir.Try(s.path("locks", entry.Name()))
		if errors.Is(err, storedir.ErrHeld) {
			continue
		}
		if err != nil {
			return count, err
		}
		if err := errors.Join(storedir.RemoveAll(s.path("work", entry.Name())), lock.Release()); err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}
