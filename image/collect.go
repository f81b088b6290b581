package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"aether/internal/host/storedir"
	"aether/sandbox"

	"github.com/google/go-containerregistry/pkg/name"
)

// Collect removes the images that are not needed and, if nothing runs, layers that no
// image has any more: what runs may still have them. Errors: Conflict if another program
// uses the store.
func (s *Store) Collect(ctx context.Context, need sandbox.Need) (gone []sandbox.Collected, err error) {
	err = s.users.Alone(ctx, func() error {
		lock, err := s.lockRecords(ctx)
		if err != nil {
			return err
		}
		gone, err = s.collectLocked(ctx, need)
		return errors.Join(err, lock.Release())
	})
	if errors.Is(err, storedir.ErrHeld) {
		err = &sandbox.Error{Class: sandbox.Conflict, Op: "image: collect", Reason: "another program uses the store of images", Retry: true,
			Remedy: "try again when it has ended", Err: err}
	}
	return gone, err
}

func (s *Store) collectLocked(ctx context.Context, need sandbox.Need) (gone []sandbox.Collected, err error) {
	records, err := s.records()
	if err != nil {
		return nil, err
	}
	needed, kept := refsOf(need.Images), map[string]bool{}
	var leaving []record
	for _, rec := range records {
		if !needed[rec.Ref] && !needed[recordedImage(rec.Ref)] {
			leaving = append(leaving, rec)
			continue
		}
		for _, id := range rec.Layers {
			kept[id.Hex] = true
		}
	}
	for _, rec := range leaving {
		one, err := s.collectImage(ctx, rec, kept, need.DryRun)
		if err != nil {
			return gone, err
		}
		gone = append(gone, one)
	}
	if need.Running {
		return gone, nil
	}
	layers, err := s.collectLayers(ctx, kept, need.DryRun)
	return append(gone, layers...), err
}

// refsOf are the names under which images stand in records. One that cannot be found any
// more stands for itself.
func refsOf(images []string) map[string]bool {
	refs := map[string]bool{}
	for _, ref := range images {
		refs[ref] = true
		if isPath(ref) {
			if path, pick, _, err := findPath(ref); err == nil {
				refs[localRef(path, pick)] = true
			}
			continue
		}
		if parsed, err := name.ParseReference(ref); err == nil {
			refs[parsed.Name()] = true
		}
	}
	return refs
}

// recordedImage is the image that a record is of, whoever fetched it: see accessTo.
func recordedImage(ref string) string { return ref[strings.LastIndexByte(ref, ' ')+1:] }

// collectImage removes the record of an image, and the layers that are not kept. A layer
// that is counted or removed is kept for those that follow.
func (s *Store) collectImage(ctx context.Context, rec record, kept map[string]bool, dry bool) (sandbox.Collected, error) {
	one := sandbox.Collected{Kind: "image", Name: rec.Ref}
	if !dry {
		if err := os.Remove(s.recordFile(rec.Ref)); err != nil {
			return one, err
		}
	}
	for _, id := range rec.Layers {
		if kept[id.Hex] {
			continue
		}
		kept[id.Hex] = true
		bytes, err := s.collectLayer(ctx, id.Hex, dry)
		if err != nil {
			return one, err
		}
		one.Bytes += bytes
	}
	return one, nil
}

// collectLayers removes the layers of no image, but for the skeleton of the host.
func (s *Store) collectLayers(ctx context.Context, kept map[string]bool, dry bool) (gone []sandbox.Collected, err error) {
	if host, ok := s.loadStamp(); ok {
		for _, dir := range host.Layers {
			kept[filepath.Base(dir)] = true
		}
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "layers"))
	for _, entry := range entries {
		if kept[entry.Name()] {
			continue
		}
		bytes, failed := s.collectLayer(ctx, entry.Name(), dry)
		if err = errors.Join(err, failed); err != nil {
			return gone, err
		}
		gone = append(gone, sandbox.Collected{Kind: "layer", Name: entry.Name(), Bytes: bytes})
	}
	return gone, err
}

func (s *Store) collectLayer(ctx context.Context, hex string, dry bool) (int64, error) {
	bytes, err := storedir.Size(s.layerDir(hex))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil || dry {
		return bytes, err
	}
	return bytes, s.removeLayer(ctx, hex)
}

// Stored are the roots that images mean, whoever fetched them. Nothing is fetched.
func (s *Store) Stored(ctx context.Context, images []string) (roots []Root, err error) {
	records, err := s.records()
	if err != nil {
		return nil, err
	}
	needed := refsOf(images)
	for _, rec := range records {
		if needed[rec.Ref] || needed[recordedImage(rec.Ref)] {
			roots = append(roots, s.root(rec))
		}
	}
	for _, ref := range images {
		if ref != "" && ref != sandbox.HostImage && !isPath(ref) {
			continue
		}
		root, err := s.Resolve(ctx, ref, nil)
		if err != nil {
			return nil, err
		}
		roots = append(roots, root)
	}
	return roots, nil
}
