package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aether/internal/host/storedir"
	"aether/sandbox"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Image is an image that the store keeps, under one of its references.
type Image struct {
	Ref    string   `json:"ref"`
	Digest string   `json:"digest"`
	Layers []string `json:"layers"`
}

// List gives the images of the store by reference. Skeletons of the host and
// plain directories are not among them.
func (s *Store) List() ([]Image, error) {
	records, err := s.records()
	if err != nil {
		return nil, err
	}
	images := make([]Image, 0, len(records))
	for _, rec := range records {
		images = append(images, Image{Ref: rec.Ref, Digest: rec.Digest, Layers: s.root(rec).Layers})
	}
	slices.SortFunc(images, func(a, b Image) int { return strings.Compare(a.Ref, b.Ref) })
	return images, nil
}

func (s *Store) records() ([]record, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "images"))
	if err != nil {
		return nil, err
	}
	records := make([]record, 0, len(entries))
	for _, entry := range entries {
		rec, err := readRecord(filepath.Join(s.dir, "images", entry.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed since the list was read
		}
		if err != nil {
			return nil, err
		}
		records = append(records, rec)
	}
	return records, nil
}

// Remove forgets the image of that digest under all its references and removes
// the layers that no other image has. No sandbox may be using it: the store does
// not know them. Errors: NotFound.
func (s *Store) Remove(ctx context.Context, digest string) error {
	lock, err := s.lockRecords(ctx)
	if err != nil {
		return err
	}
	return errors.Join(s.removeLocked(ctx, digest), lock.Release())
}

func (s *Store) removeLocked(ctx context.Context, digest string) error {
	records, err := s.records()
	if err != nil {
		return err
	}
	kept := map[v1.Hash]bool{}
	var gone []record
	for _, rec := range records {
		if rec.Digest == digest {
			gone = append(gone, rec)
			continue
		}
		for _, id := range rec.Layers {
			kept[id] = true
		}
	}
	if len(gone) == 0 {
		return &sandbox.Error{Class: sandbox.NotFound, Op: "image: remove", Reason: "no image has the digest " + digest}
	}
	return s.removeAll(ctx, gone, kept)
}

func (s *Store) removeAll(ctx context.Context, gone []record, kept map[v1.Hash]bool) error {
	for _, rec := range gone {
		if err := os.Remove(s.recordFile(rec.Ref)); err != nil {
			return err
		}
		for _, id := range rec.Layers {
			if kept[id] {
				continue
			}
			if err := s.removeLayer(ctx, id.Hex); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeLayer takes the layer's name away first, so that a half-removed layer is
// never found under it.
func (s *Store) removeLayer(ctx context.Context, hex string) error {
	lock, err := storedir.Acquire(ctx, s.lockFile(hex))
	if err != nil {
		return err
	}
	err = errors.Join(os.RemoveAll(s.workDir(hex)), os.Rename(s.layerDir(hex), s.workDir(hex)))
	if errors.Is(err, os.ErrNotExist) {
		err = nil // two references, or the same layer twice
	}
	return errors.Join(err, os.RemoveAll(s.workDir(hex)), lock.Release())
}
