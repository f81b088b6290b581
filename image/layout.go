package image

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	layoutFile = "oci-layout"
	indexFile  = "index.json"
	refName    = "org.opencontainers.image.ref.name"
	// maxNesting bounds indexes within indexes.
	maxNesting = 4
)

func (s *Store) resolveLayout(ctx context.Context, dir string, pick selector, progress func(Progress)) (Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Root{}, pathFailure(err)
	}
	defer root.Close()
	src, err := layout{root.FS()}.source(pick)
	if err != nil {
		return Root{}, err
	}
	return s.install(ctx, localRef(dir, pick), src, progress)
}

// localRef names an image of a layout or archive in the store's records.
func localRef(name string, pick selector) string {
	switch {
	case pick.tag != "":
		return name + ":" + pick.tag
	case pick != selector{}:
		return name + "@" + pick.digest.String()
	}
	return name
}

// layout reads an OCI layout from a directory or from an archive.
type layout struct{ files fs.FS }

func (l layout) source(pick selector) (*source, error) {
	raw, err := l.read(indexFile)
	if err != nil {
		return nil, err
	}
	found, err := l.pick(raw, pick)
	if err != nil {
		return nil, err
	}
	raw, err = l.document(found)
	if err != nil {
		return nil, err
	}
	return l.image(found.Digest, raw)
}

func (l layout) image(digest v1.Hash, raw []byte) (*source, error) {
	var manifest v1.Manifest
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return nil, invalidCause(err, "the manifest %v cannot be read", digest)
	}
	if err := checkManifest(&manifest); err != nil {
		return nil, err
	}
	config, err := l.document(manifest.Config)
	if err != nil {
		return nil, err
	}
	layers := make([]layer, 0, len(manifest.Layers))
	for _, d := range manifest.Layers {
		layers = append(layers, layer{blob: d.Digest, size: d.Size, open: l.opener(d.Digest)})
	}
	return newSource(digest.String(), config, layers)
}

func (l layout) opener(digest v1.Hash) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) {
		file, err := l.files.Open(blobName(digest))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, invalidCause(err, "the blob %v is missing", digest)
		}
		return file, err
	}
}

func blobName(digest v1.Hash) string { return path.Join("blobs", digest.Algorithm, digest.Hex) }

// pick follows indexes until it has the one manifest that is asked for.
func (l layout) pick(raw []byte, pick selector) (v1.Descriptor, error) {
	for range maxNesting {
		var index v1.IndexManifest
		if err := json.Unmarshal(raw, &index); err != nil {
			return v1.Descriptor{}, invalidCause(err, "its index cannot be read")
		}
		found, err := choose(index.Manifests, pick)
		if err != nil || !found.MediaType.IsIndex() {
			return found, err
		}
		if raw, err = l.document(found); err != nil {
			return v1.Descriptor{}, err
		}
		pick = selector{} // what is inside an index of that name is told by platform
	}
	return v1.Descriptor{}, invalid("it has indexes within indexes, more than %d deep", maxNesting)
}

// choose takes the only entry that fits the selector and this host's platform.
func choose(list []v1.Descriptor, pick selector) (v1.Descriptor, error) {
	fits := slices.DeleteFunc(slices.Clone(list), func(d v1.Descriptor) bool {
		return !pick.matches(d) || !runsHere(d.Platform)
	})
	switch {
	case len(fits) == 1 || len(fits) > 1 && sameDigest(fits):
		return fits[0], checkHash(fits[0].Digest)
	case len(fits) == 0:
		return v1.Descriptor{}, notFound(nil, "", "none of its %d images fits the selector and linux/%s", len(list), runtime.GOARCH)
	}
	return v1.Descriptor{}, invalid("%d of its images fit; name one by :tag or @sha256:digest", len(fits))
}

func sameDigest(list []v1.Descriptor) bool {
	return !slices.ContainsFunc(list, func(d v1.Descriptor) bool { return d.Digest != list[0].Digest })
}

func (p selector) matches(d v1.Descriptor) bool {
	switch {
	case p.tag != "":
		return d.Annotations[refName] == p.tag
	case p != selector{}:
		return d.Digest == p.digest
	}
	return true
}

func runsHere(p *v1.Platform) bool {
	return p == nil || (p.OS == "" || p.OS == "linux") && (p.Architecture == "" || p.Architecture == runtime.GOARCH)
}

// document reads a blob that is parsed, and checks its digest.
func (l layout) document(d v1.Descriptor) ([]byte, error) {
	if err := checkHash(d.Digest); err != nil {
		return nil, err
	}
	text, err := l.read(blobName(d.Digest))
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	sum.Write(text)
	return text, checkSum(sum, d.Digest)
}

func (l layout) read(name string) ([]byte, error) { return readDocument(l.files, name) }

// readDocument reads a small file of an image.
func readDocument(files fs.FS, name string) ([]byte, error) {
	file, err := files.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, invalidCause(err, "it lacks the file %.200s", name)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxDocument+1))
	if err != nil {
		return nil, invalidCause(err, "the file %.200s cannot be read", name)
	}
	if len(text) > maxDocument {
		return nil, invalid("the file %.200s is over %d bytes", name, maxDocument)
	}
	return text, nil
}
