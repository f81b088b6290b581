package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"aether/sandbox"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// parallelLayers is how many layers of an image are fetched at the same time.
const parallelLayers = 4

// Resolve finds the root file system that ref means, and fetches and unpacks what
// the store lacks of it. Unless nothing is lacking, it reports to progress or, if
// that is nil, to what the context has (WithProgress), from one goroutine at a
// time. Errors: NotFound for what does not exist, Invalid (field "image") for a
// bad reference or a broken or hostile image, Denied where a registry wants other
// credentials, Unavailable with Retry for a registry out of reach, Exhausted for
// a full disk.
func (s *Store) Resolve(ctx context.Context, ref string, progress func(Progress)) (Root, error) {
	root, err := s.resolve(ctx, ref, observerOf(ctx, progress))
	if err != nil {
		return Root{}, fmt.Errorf("image %.200q: %w", ref, err)
	}
	return root, nil
}

func (s *Store) resolve(ctx context.Context, ref string, progress func(Progress)) (Root, error) {
	switch {
	case strings.ContainsRune(ref, 0) || len(ref) > maxPath:
		return Root{}, invalid("the reference has a zero byte or is over %d bytes", maxPath)
	case ref == "" || ref == sandbox.HostImage:
		return s.resolveHost(ctx)
	case isPath(ref):
		return s.resolvePath(ctx, ref, progress)
	}
	return s.resolveRegistry(ctx, ref, progress)
}

// isPath tells paths from registry names, which never begin so.
func isPath(ref string) bool {
	return ref == "." || ref == ".." || strings.HasPrefix(ref, "/") || strings.HasPrefix(ref, "./") || strings.HasPrefix(ref, "../")
}

func (s *Store) resolvePath(ctx context.Context, ref string, progress func(Progress)) (Root, error) {
	name, pick, info, err := findPath(ref)
	if err != nil {
		return Root{}, err
	}
	if info.Mode().IsRegular() {
		return s.resolveArchive(ctx, name, pick, progress)
	}
	if !info.IsDir() {
		return Root{}, invalid("%s is neither a directory nor a file", name)
	}
	layout, err := exists(filepath.Join(name, layoutFile))
	if err != nil {
		return Root{}, err
	}
	if layout {
		return s.resolveLayout(ctx, name, pick, progress)
	}
	return directory(name, pick)
}

// directory is a root file system that somebody else keeps.
func directory(name string, pick selector) (Root, error) {
	if pick != (selector{}) {
		return Root{}, invalid("%s is no OCI layout, from which %s could be picked", name, pick)
	}
	if name == "/" {
		return Root{}, &sandbox.Error{Class: sandbox.Invalid, Field: "image",
			Reason: "/ would show the host's homes and secrets", Remedy: `use the image "host"`}
	}
	return Root{Layers: []string{name}, Config: plainConfig()}, nil
}

// install unpacks what is missing of a source and records what ref means. A
// concurrent Remove may take layers away until the record is there: then again.
func (s *Store) install(ctx context.Context, ref string, src *source, progress func(Progress)) (Root, error) {
	rec := record{Ref: ref, Digest: src.digest, Config: src.config, Layers: src.diffIDs()}
	for {
		if err := s.ensureLayers(ctx, src.layers, progress); err != nil {
			return Root{}, err
		}
		saved, err := s.saveRecord(ctx, rec)
		if err != nil {
			return Root{}, err
		}
		if saved {
			return s.root(rec), nil
		}
	}
}

// ensureLayers brings what the store lacks. Progress begins anew each time.
func (s *Store) ensureLayers(ctx context.Context, layers []layer, observe func(Progress)) error {
	count, lacking, err := s.lacking(layers)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	left, progress := newBudget(s.limits), newTally(count, lacking, observe)
	places := make(chan struct{}, parallelLayers)
	var work sync.WaitGroup
	for _, l := range lacking {
		places <- struct{}{}
		work.Go(func() {
			defer func() { <-places }()
			report := progress.of(l)
			if err := s.ensureLayer(ctx, l, left, report); err != nil {
				cancel(err) // the first error is the one that counts
				return
			}
			progress.ready(report, l)
		})
	}
	work.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return nil
}

// lacking says which layers are not stored, and how many the image has. One that
// stands in it twice is one.
func (s *Store) lacking(layers []layer) (count int, lacking []layer, err error) {
	seen := map[v1.Hash]bool{}
	for _, l := range layers {
		if seen[l.diffID] {
			continue
		}
		seen[l.diffID] = true
		there, err := exists(s.layerDir(l.diffID.Hex))
		if err != nil {
			return 0, nil, err
		}
		if !there {
			lacking = append(lacking, l)
		}
	}
	return len(seen), lacking, nil
}

// root names each layer once, at its highest place: overlayfs refuses the same
// directory twice, and whatever a layer shows or hides at its lower place it
// shows or hides at its higher one too.
func (s *Store) root(rec record) Root {
	root := Root{Digest: rec.Digest, Config: rec.Config.clone()}
	for i, id := range rec.Layers {
		if !slices.Contains(rec.Layers[i+1:], id) {
			root.Layers = append(root.Layers, s.layerDir(id.Hex))
		}
	}
	return root
}

// findPath takes the selector off a path, unless a file has the whole name.
func findPath(ref string) (string, selector, os.FileInfo, error) {
	var failure error
	for _, cut := range []func(string) (string, selector, bool){wholePath, cutDigest, cutTag} {
		name, pick, ok := cut(ref)
		if !ok {
			continue
		}
		name, err := filepath.Abs(name)
		if err != nil {
			return "", pick, nil, err
		}
		info, err := os.Stat(name)
		if err == nil {
			return name, pick, info, nil
		}
		if failure == nil {
			failure = pathFailure(err)
		}
	}
	return "", selector{}, nil, failure
}

func pathFailure(err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return notFound(err, "", "there is no such file or directory")
	case errors.Is(err, os.ErrPermission):
		return &sandbox.Error{Class: sandbox.Denied, Reason: "the path may not be read", Err: err}
	}
	return invalidCause(err, "the path cannot be used")
}

// Local is Resolve of what can be had without a registry; known says whether it can.
func (s *Store) Local(ctx context.Context, ref string) (root Root, known bool, err error) {
	if ref == "" || ref == sandbox.HostImage || isPath(ref) {
		root, err = s.Resolve(ctx, ref, nil)
		return root, err == nil, err
	}
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return Root{}, false, invalidCause(err, "it is neither a path nor the name of an image")
	}
	rec, known, err := s.loadRecord(accessTo(ctx, parsed).record)
	if !known || err != nil {
		return Root{}, false, err
	}
	return s.root(rec), true, nil
}
