package kernel

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"aether/internal/bounded"
	"aether/sandbox"

	"github.com/klauspost/compress/zstd"
)

// format is what a file that should be a kernel turns out to be.
type format int

const (
	unknown  format = iota
	bzImage         // x86: a loader with a compressed kernel in it
	elfImage        // the kernel itself
	armImage        // arm64: the kernel itself, with a header
)

// Places in the header of a bzImage, as the kernel's boot protocol has them.
const (
	headerSize    = 0x260
	setupSectors  = 0x1f1
	bootMagic     = 0x202 // "HdrS"
	protocol      = 0x206
	versionText   = 0x20e
	payloadOffset = 0x248
	payloadLength = 0x24c

	sector = 512
	// maxKernel bounds a kernel in memory, unpacked.
	maxKernel = 256 << 20
)

// identify looks at the first bytes of a file.
func identify(file io.ReaderAt) (format, string, error) {
	head := make([]byte, headerSize)
	if n, err := file.ReadAt(head, 0); n < len(head) {
		if err == io.EOF {
			return unknown, "", nil
		}
		return unknown, "", err
	}
	switch {
	case string(head[bootMagic:bootMagic+4]) == "HdrS" && binary.LittleEndian.Uint16(head[protocol:]) >= 0x208:
		release, err := bzRelease(file, head)
		return bzImage, release, err
	case string(head[:4]) == "\x7fELF":
		return elfImage, "", nil
	case string(head[56:60]) == "ARM\x64":
		return armImage, "", nil
	}
	return unknown, "", nil
}

// bzRelease reads the version that the loader would print: the release is its
// first word.
func bzRelease(file io.ReaderAt, head []byte) (string, error) {
	text := make([]byte, 256)
	n, err := file.ReadAt(text, int64(binary.LittleEndian.Uint16(head[versionText:]))+sector)
	if err != nil && err != io.EOF {
		return "", err
	}
	text, _, _ = bytes.Cut(text[:n], []byte{0})
	release, _, _ := strings.Cut(string(text), " ")
	return release, nil
}

// Unpacked gives the kernel itself, as machines without a boot loader need it.
// Errors: Invalid for a file that is none, Unavailable where the tool that unpacks
// it is missing.
func (k Kernel) Unpacked(ctx context.Context) ([]byte, error) {
	data, err := readBounded(k.Image)
	if err != nil {
		return nil, err
	}
	kind, _, err := identify(bytes.NewReader(data))
	switch {
	case err != nil:
		return nil, err
	case kind == elfImage || kind == armImage:
		return data, nil
	case kind == unknown:
		return nil, sandbox.Invalidf("kernel", "%s is no kernel", k.Image)
	}
	payload, err := payloadOf(data)
	if err != nil {
		return nil, fmt.Errorf("kernel: %s: %w", k.Image, err)
	}
	unpacked, err := unpack(ctx, payload)
	if err == nil && !bytes.HasPrefix(unpacked, []byte("\x7fELF")) {
		err = sandbox.Invalidf("kernel", "what it unpacks to is no kernel")
	}
	if err != nil {
		return nil, fmt.Errorf("kernel: %s: %w", k.Image, err)
	}
	return unpacked, nil
}

func readBounded(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return takeKernel(file)
}

func takeKernel(r io.Reader) ([]byte, error) {
	data, err := bounded.ReadAll(r, "the kernel", maxKernel)
	var long *bounded.TooLong
	if errors.As(err, &long) {
		return nil, &sandbox.Error{Class: sandbox.Invalid, Field: "kernel", Err: err}
	}
	return data, err
}

// payloadOf finds the compressed kernel. It ends with its size as four bytes,
// which is not a part of it.
func payloadOf(data []byte) ([]byte, error) {
	setup := int64(data[setupSectors])
	if setup == 0 {
		setup = 4
	}
	start := (setup+1)*sector + int64(binary.LittleEndian.Uint32(data[payloadOffset:]))
	end := start + int64(binary.LittleEndian.Uint32(data[payloadLength:])) - 4
	if start > end || end > int64(len(data)) {
		return nil, sandbox.Invalidf("kernel", "its header points outside of it")
	}
	return data[start:end], nil
}

// packings are told by their first bytes.
var packings = []struct {
	magic  string
	unpack func(context.Context, []byte) ([]byte, error)
}{
	{"\x1f\x8b", unpackGzip},
	{"\x28\xb5\x2f\xfd", unpackZstd},
	{lz4Magic, func(_ context.Context, packed []byte) ([]byte, error) { return unpackLZ4(packed) }},
	{"\xfd7zXZ\x00", unpackXZ},
	{"\x7fELF", func(_ context.Context, plain []byte) ([]byte, error) { return plain, nil }},
}

func unpack(ctx context.Context, packed []byte) ([]byte, error) {
	for _, p := range packings {
		if bytes.HasPrefix(packed, []byte(p.magic)) {
			return p.unpack(ctx, packed)
		}
	}
	return nil, &sandbox.Error{Class: sandbox.Unsupported, Reason: fmt.Sprintf("it is packed in an unknown way (%x)", packed[:min(4, len(packed))])}
}

func unpackGzip(_ context.Context, packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, broken(err)
	}
	r.Multistream(false) // what follows is padding
	data, err := takeKernel(r)
	return data, broken(err)
}

func unpackZstd(_ context.Context, packed []byte) ([]byte, error) {
	r, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
	if err != nil {
		return nil, broken(err)
	}
	defer r.Close()
	data, err := takeKernel(r)
	return data, broken(err)
}

// unpackXZ needs the tool: the format is too large to write once more.
func unpackXZ(ctx context.Context, packed []byte) ([]byte, error) {
	tool, err := exec.LookPath("xz")
	if err != nil {
		return nil, &sandbox.Error{Class: sandbox.Unavailable, Reason: "it is packed with xz, which is not installed", Remedy: "apt install xz-utils"}
	}
	cmd := exec.CommandContext(ctx, tool, "--decompress", "--stdout", "--single-stream")
	cmd.Stdin = bytes.NewReader(packed)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	data, err := takeKernel(out)
	if err != nil {
		err = errors.Join(err, cmd.Process.Kill())
	}
	return data, broken(errors.Join(err, cmd.Wait()))
}

func broken(err error) error {
	if err == nil {
		return nil
	}
	return &sandbox.Error{Class: sandbox.Invalid, Field: "kernel", Reason: "it cannot be unpacked", Err: err}
}
