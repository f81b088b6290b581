package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"path"
	"slices"
	"strings"
)

const dockerManifest = "manifest.json"

// dockerImage is one element of the manifest that docker save writes.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// dockerSource reads an archive made by docker save. Such an archive has no
// digests of its blobs, but the configuration has the layers' diff ids, and the
// configuration's own digest is the image's id.
func dockerSource(files *tarFS, pick selector) (*source, error) {
	raw, err := readDocument(files, dockerManifest)
	if err != nil {
		return nil, err
	}
	var images []dockerImage
	if err := json.Unmarshal(raw, &images); err != nil {
		return nil, invalidCause(err, "%s cannot be read", dockerManifest)
	}
	found, err := chooseDocker(images, pick)
	if err != nil {
		return nil, err
	}
	return found.source(files)
}

func (d dockerImage) source(files *tarFS) (*source, error) {
	config, err := readDocument(files, path.Clean(d.Config))
	if err != nil {
		return nil, err
	}
	if len(d.Layers) > maxLayers {
		return nil, invalid("its manifest has %d layers, more than %d", len(d.Layers), maxLayers)
	}
	layers := make([]layer, 0, len(d.Layers))
	for _, name := range d.Layers {
		found, err := files.find(path.Clean(name))
		if err != nil {
			return nil, invalidCause(err, "a layer is missing")
		}
		open := func(context.Context) (io.ReadCloser, error) { return files.open(found, name), nil }
		layers = append(layers, layer{size: found.size, open: open})
	}
	sum := sha256.Sum256(config)
	return newSource("sha256:"+hex.EncodeToString(sum[:]), config, layers)
}

func chooseDocker(images []dockerImage, pick selector) (dockerImage, error) {
	fits := slices.DeleteFunc(slices.Clone(images), func(d dockerImage) bool { return !pick.matchesDocker(d) })
	switch len(fits) {
	case 1:
		return fits[0], nil
	case 0:
		return dockerImage{}, notFound(nil, "", "none of its %d images fits the selector", len(images))
	}
	return dockerImage{}, invalid("%d of its images fit; name one by :name:tag", len(fits))
}

// matchesDocker compares whole references; a bare tag is matched by any name.
func (p selector) matchesDocker(d dockerImage) bool {
	switch {
	case p.tag != "":
		return slices.ContainsFunc(d.RepoTags, func(ref string) bool {
			return ref == p.tag || strings.HasSuffix(ref, ":"+p.tag) && !strings.ContainsAny(p.tag, ":/")
		})
	case p != selector{}:
		return strings.Contains(d.Config, p.digest.Hex)
	}
	return true
}
