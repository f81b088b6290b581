package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"aether/internal/host/storedir"
)

// Layer is an unpacked snapshot, in use by this program until it is released or the store
// is closed.
type Layer struct {
	// Path is the directory to be joined by overlayfs above the image's layers.
	Path  string
	store *Store
	dir   string // of all that the store has of it
}

const treeName = "tree"

func newLayer(dir string) *Layer { return &Layer{Path: filepath.Join(dir, treeName), dir: dir} }

// newLayer is a layer of the store.
func (s *Store) newLayer(manifest string) *Layer {
	layer := newLayer(s.layer(manifest))
	layer.store = s
	return layer
}

// Release says that whoever was given the layer does not need it any more, and whether
// nobody else in this program does: then Reap removes it, unless a snapshot is left of it.
// A nil layer is nobody's.
func (l *Layer) Release() (last bool, err error) {
	if l == nil {
		return false, nil
	}
	return l.store.let(filepath.Base(l.dir))
}

// entries is what the layer was unpacked of.
func (l *Layer) entries() ([]entry, error) {
	file, err := openPlain(filepath.Join(l.dir, manifestName))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return decode(file)
}

// Layer gives the layer of the snapshot in dir, whose record is rec, and unpacks
// it unless that was done before. Release must follow. Errors: Invalid for a snapshot
// that is damaged, Exhausted for a full disk.
func (s *Store) Layer(ctx context.Context, dir string, rec Record) (*Layer, error) {
	layer := s.newLayer(rec.Manifest)
	if s.share(rec.Manifest) == 0 {
		if err := s.use(ctx, rec.Manifest); err != nil {
			return nil, fmt.Errorf("snapshot: %w", err)
		}
	}
	if err := s.ensure(ctx, layer.dir, dir, rec); err != nil {
		_, let := layer.Release()
		return nil, errors.Join(fmt.Errorf("snapshot: unpack %s: %w", dir, err), let)
	}
	return layer, nil
}

// LayerOf finds the layer, in use by this program, that a root file system has on top, or
// nil. Release must follow.
func (s *Store) LayerOf(layers []string) *Layer {
	if len(layers) == 0 {
		return nil
	}
	layer := s.newLayer(filepath.Base(filepath.Dir(layers[len(layers)-1])))
	if layer.Path != layers[len(layers)-1] || s.share(filepath.Base(layer.dir)) == 0 {
		return nil
	}
	return layer
}

// share counts one more user of a layer that has some, and says how many it had.
func (s *Store) share(manifest string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := s.users[manifest]
	if count > 0 {
		s.users[manifest]++
	}
	return count
}

// use says that this program uses a layer, before it looks for it: from now on
// nobody takes it away.
func (s *Store) use(ctx context.Context, manifest string) error {
	lock, err := s.lockFor(ctx, "layers")
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.enlist()
	if err == nil {
		err = os.WriteFile(s.path("programs", s.own, manifest), nil, 0o600)
	}
	if err == nil {
		s.users[manifest]++
	}
	return errors.Join(err, lock.Release())
}

// let counts one user less, and says whether that was the last one. A store that was
// closed has let go of everything.
func (s *Store) let(manifest string) (last bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.users[manifest] {
	case 0:
		return false, nil
	case 1:
		delete(s.users, manifest)
		return true, os.Remove(s.path("programs", s.own, manifest))
	}
	s.users[manifest]--
	return false, nil
}

// enlist makes this program known at the first need.
func (s *Store) enlist() error {
	if s.own != "" {
		return nil
	}
	name := strings.ToLower(rand.Text())
	lock, err := storedir.Try(s.path("programs", name+lockSuffix))
	if err != nil {
		return err
	}
	if err := os.Mkdir(s.path("programs", name), 0o700); err != nil {
		return errors.Join(err, lock.Release())
	}
	s.own, s.lock = name, lock
	return nil
}

// ensure unpacks a layer unless it is there. Of several callers, in this program
// or others, one does the work while the rest wait for it.
func (s *Store) ensure(ctx context.Context, final, dir string, rec Record) error {
	if there, err := exists(final); there || err != nil {
		return err
	}
	lock, err := s.lockFor(ctx, rec.Manifest)
	if err != nil {
		return err
	}
	return errors.Join(s.fill(ctx, final, dir, rec), lock.Release())
}

func (s *Store) fill(ctx context.Context, final, dir string, rec Record) error {
	if there, err := exists(final); there || err != nil {
		return err
	}
	work, err := s.newWork()
	if err != nil {
		return err
	}
	made := filepath.Join(work.dir, "layer")
	err = unpack(ctx, made, dir, rec)
	if err == nil {
		err = os.Rename(made, final)
	}
	return errors.Join(err, work.remove())
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if os.IsNotExist(err) {
		return false, nil
	}
	return err == nil, err
}
