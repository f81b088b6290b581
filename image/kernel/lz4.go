package kernel

import (
	"encoding/binary"
	"errors"

	"github.com/pierrec/lz4/v4"
)

// lz4Magic begins the format that kernels use, the legacy frame: blocks of 8 MiB,
// each after its packed size, without any checksum.
const (
	lz4Magic = "\x02\x21\x4c\x18"
	lz4Block = 8 << 20
)

var errLZ4 = errors.New("lz4: the data is broken")

// unpackLZ4 reads the frame itself, which is a size before each block, and has
// each block unpacked into a buffer that it cannot outgrow.
func unpackLZ4(packed []byte) ([]byte, error) {
	var out []byte
	block := make([]byte, lz4Block)
	for rest := packed[len(lz4Magic):]; len(rest) >= 4; {
		size := binary.LittleEndian.Uint32(rest)
		rest = rest[4:]
		if uint64(size) > uint64(len(rest)) {
			return nil, broken(errLZ4)
		}
		n, err := lz4.UncompressBlock(rest[:size], block)
		if err != nil {
			return nil, broken(errors.Join(errLZ4, err))
		}
		if out = append(out, block[:n]...); len(out) > maxKernel {
			return nil, broken(errLZ4)
		}
		rest = rest[size:]
	}
	return out, nil
}
