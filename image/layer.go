package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"aether/sandbox"
)

// ensureLayer unpacks a layer unless it is there.
func (s *Store) ensureLayer(ctx context.Context, l layer, left *budget, report func(int64)) error {
	err := s.ensureDir(ctx, l.diffID.Hex, func(dir string) error { return l.unpackTo(ctx, dir, left, report) })
	if err != nil {
		return fmt.Errorf("layer %v: %w", l.diffID, err)
	}
	return nil
}

// unpackTo writes the layer to dir and checks both digests.
func (l layer) unpackTo(ctx context.Context, dir string, left *budget, report func(int64)) error {
	blob, err := l.open(ctx)
	if err != nil {
		return err
	}
	in := &blobReader{ctx: ctx, r: blob, layer: l, hash: sha256.New(), report: report}
	err = l.unpackFrom(ctx, in, dir, left)
	if in.failed != nil {
		err = sourceFailure(in.failed)
	}
	return errors.Join(err, blob.Close())
}

func (l layer) unpackFrom(ctx context.Context, in *blobReader, dir string, left *budget) error {
	plain, err := decompress(in)
	if err != nil {
		return invalidCause(err, "a layer cannot be decompressed")
	}
	defer plain.Close()
	archive := newArchiveReader(plain, left.bytes.Load()+left.overhead)
	if err := unpack(ctx, archive, dir, left); err != nil {
		return classed(err)
	}
	if err := archive.verify(l.diffID); err != nil {
		return classed(err)
	}
	return in.verify()
}

// classed turns the errors of archive and decompressor, which are the image's
// fault, into Invalid ones, and leaves all others as they are.
func classed(err error) error {
	var typed *sandbox.Error
	var stream *streamError
	if errors.As(err, &typed) || !errors.As(err, &stream) {
		return err
	}
	return invalidCause(err, "a layer is broken")
}
