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

// Layer is an unpacked snapshot, in use by this program until its store is closed.
type Layer struct {
	// Path is the directory to be joined by overlayfs above the image's layers.
	Path string
	dir  string // of all that the store has of it
}

const treeName = "tree"

func newLayer(dir string) *Layer { return &Layer{Path: filepath.Join(dir, treeName), dir: dir} }

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
// it unless that was done before. Errors: Invalid for a snapshot that is damaged,
// Exhausted for a full disk.
func (s *Store) Layer(ctx context.Context, dir string, rec Record) (*Layer, error) {
	s.mu.Lock()
	known := s.layers[rec.Manifest]
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	if err := s.use(ctx, rec.Manifest); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	final := s.layer(rec.Manifest)
	if err := s.ensure(ctx, final, dir, rec); err != nil {
		return nil, fmt.Errorf("snapshot: unpack %s: %w", dir, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.layers[rec.Manifest] == nil {
		s.layers[rec.Manifest] = newLayer(final)
	}
	return s.layers[rec.Manifest], nil
}

// LayerOf finds the layer, in use by this program, that a root file system has on
// top, or nil.
func (s *Store) LayerOf(layers []string) *Layer {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.layers {
		if l.Path == layers[len(layers)-1] {
			return l
		}
	}
	return nil
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
	return errors.Join(err, lock.Release())
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
