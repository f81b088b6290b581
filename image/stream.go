package image

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"
)

// blobReader reads a layer as it is stored, counts and hashes it, and remembers
// whether the source itself failed, so that a broken connection is never taken
// for a broken image.
type blobReader struct {
	ctx    context.Context
	r      io.Reader
	layer  layer
	hash   hash.Hash
	read   int64
	report func(int64)
	failed error
}

func (b *blobReader) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		b.failed = err
		return 0, err
	}
	n, err := b.r.Read(p)
	b.hash.Write(p[:n])
	b.read += int64(n)
	b.report(b.read)
	if err != nil && err != io.EOF {
		b.failed = err
	}
	return n, err
}

// verify checks the whole blob, of which the rest is read first.
func (b *blobReader) verify() error {
	if b.layer.blob == (v1.Hash{}) {
		return nil
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(b, b.layer.size-b.read+1)); err != nil {
		return err
	}
	if b.read != b.layer.size {
		return invalid("the blob %v is not %d bytes long", b.layer.blob, b.layer.size)
	}
	return checkSum(b.hash, b.layer.blob)
}

func checkSum(sum hash.Hash, want v1.Hash) error {
	if got := hex.EncodeToString(sum.Sum(nil)); got != want.Hex {
		return invalid("the content of %v has the digest sha256:%s", want, got)
	}
	return nil
}

// decompress looks at the first bytes: media types are missing or wrong in the
// field too often.
func decompress(r io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	magic, err := buffered.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(buffered)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		decoder, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return decoder.IOReadCloser(), nil
	}
	return io.NopCloser(buffered), nil
}

// archiveReader hashes the uncompressed archive and bounds it.
type archiveReader struct {
	r    io.Reader
	hash hash.Hash
	left int64
}

func newArchiveReader(r io.Reader, bound int64) *archiveReader {
	return &archiveReader{r: r, hash: sha256.New(), left: bound}
}

func (a *archiveReader) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	a.hash.Write(p[:n])
	if a.left -= int64(n); a.left < 0 {
		return 0, invalid("it unpacks to more bytes than the bound allows")
	}
	return n, err
}

// verify checks the whole archive, of which the padding is read first.
func (a *archiveReader) verify(want v1.Hash) error {
	if _, err := io.Copy(io.Discard, a); err != nil {
		return unreadable(err)
	}
	return checkSum(a.hash, want)
}
