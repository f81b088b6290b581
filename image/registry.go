package image

import (
	"context"
	"io"
	"runtime"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func (s *Store) resolveRegistry(ctx context.Context, ref string, progress func(Progress)) (Root, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return Root{}, invalidCause(err, "it is neither a path nor the name of an image")
	}
	by := accessTo(ctx, parsed)
	if rec, ok, err := s.loadRecord(by.record); ok || err != nil {
		return s.root(rec), err
	}
	progress(Progress{}) // the registry may take its time to answer
	src, err := registrySource(ctx, parsed, by.keys)
	if err != nil {
		return Root{}, err
	}
	return s.install(ctx, by.record, src, progress)
}

func registrySource(ctx context.Context, ref name.Reference, keys authn.Keychain) (*source, error) {
	img, err := remote.Image(ref, remote.WithContext(ctx), remote.WithTransport(guarded),
		remote.WithAuthFromKeychain(keys),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return nil, registryFailure(err)
	}
	manifest, err := img.Manifest()
	if err != nil {
		return nil, registryFailure(err)
	}
	if err := checkManifest(manifest); err != nil {
		return nil, err
	}
	return describe(img, manifest)
}

// describe reads the small documents of an image; layers are opened when needed.
func describe(img v1.Image, manifest *v1.Manifest) (*source, error) {
	digest, err := img.Digest()
	if err != nil {
		return nil, registryFailure(err)
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return nil, registryFailure(err)
	}
	layers := make([]layer, 0, len(manifest.Layers))
	for _, d := range manifest.Layers {
		layers = append(layers, layer{blob: d.Digest, size: d.Size, open: remoteBlob(img, d.Digest)})
	}
	return newSource(digest.String(), config, layers)
}

func remoteBlob(img v1.Image, digest v1.Hash) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) {
		l, err := img.LayerByDigest(digest)
		if err != nil {
			return nil, registryFailure(err)
		}
		body, err := l.Compressed()
		if err != nil {
			return nil, registryFailure(err)
		}
		return body, nil
	}
}
