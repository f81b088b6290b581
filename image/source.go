package image

import (
	"context"
	"encoding/json"
	"io"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// source is an image before it is unpacked, wherever it comes from.
type source struct {
	digest string
	config Config
	layers []layer // lowest first
}

func (s *source) diffIDs() []v1.Hash {
	ids := make([]v1.Hash, 0, len(s.layers))
	for _, l := range s.layers {
		ids = append(ids, l.diffID)
	}
	return ids
}

// layer is one layer of a source.
type layer struct {
	// diffID is the digest of the uncompressed archive, and the layer's name.
	diffID v1.Hash
	// blob and size are what the manifest says of the stored form. Docker
	// archives say nothing: blob is then zero and size what the archive says.
	blob v1.Hash
	size int64
	open func(context.Context) (io.ReadCloser, error)
}

// configFile is the part of an image's configuration that is used here.
type configFile struct {
	OS           string    `json:"os"`
	Architecture string    `json:"architecture"`
	Config       v1.Config `json:"config"`
	RootFS       struct {
		DiffIDs []v1.Hash `json:"diff_ids"`
	} `json:"rootfs"`
}

// newSource joins a configuration with the layers that a manifest lists for it.
func newSource(digest string, rawConfig []byte, layers []layer) (*source, error) {
	var file configFile
	if err := json.Unmarshal(rawConfig, &file); err != nil {
		return nil, invalidCause(err, "its configuration cannot be read")
	}
	if here := (v1.Platform{OS: file.OS, Architecture: file.Architecture}); !runsHere(&here) {
		return nil, invalid("it is made for %.40s/%.40s, and this host runs linux/%s", file.OS, file.Architecture, runtime.GOARCH)
	}
	config, err := configOf(file.Config)
	if err != nil {
		return nil, err
	}
	ids := file.RootFS.DiffIDs
	if len(ids) != len(layers) || len(ids) > maxLayers {
		return nil, invalid("its manifest has %d layers and its configuration %d; both must agree and be at most %d", len(layers), len(ids), maxLayers)
	}
	for i, id := range ids {
		if err := checkHash(id); err != nil {
			return nil, err
		}
		layers[i].diffID = id
	}
	return &source{digest: digest, config: config, layers: layers}, nil
}

// checkHash holds for every digest that becomes a file's name or is relied on.
func checkHash(h v1.Hash) error {
	if h.Algorithm != "sha256" || len(h.Hex) != 64 {
		return invalid("%.80q is not a sha256 digest", h.String())
	}
	for _, c := range h.Hex {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return invalid("%.80q is not a sha256 digest", h.String())
		}
	}
	return nil
}

// checkManifest bounds what a manifest makes us fetch.
func checkManifest(m *v1.Manifest) error {
	if len(m.Layers) > maxLayers {
		return invalid("its manifest has %d layers, more than %d", len(m.Layers), maxLayers)
	}
	for _, d := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		if err := checkHash(d.Digest); err != nil {
			return err
		}
		if d.Size < 0 {
			return invalid("the blob %v has a negative size", d.Digest)
		}
	}
	if m.Config.Size > maxDocument {
		return invalid("its configuration is over %d bytes", maxDocument)
	}
	return nil
}
