package kernel

import (
	"encoding/binary"
	"errors"
)

// lz4Magic begins the format that kernels use: blocks of 8 MiB, each after its
// packed size, without any checksum.
const (
	lz4Magic = "\x02\x21\x4c\x18"
	lz4Block = 8 << 20
)

var errLZ4 = errors.New("lz4: the data is broken")

func unpackLZ4(packed []byte) ([]byte, error) {
	var out []byte
	for rest := packed[len(lz4Magic):]; len(rest) >= 4; {
		size := binary.LittleEndian.Uint32(rest)
		rest = rest[4:]
		if uint64(size) > uint64(len(rest)) {
			return nil, broken(errLZ4)
		}
		block, err := lz4Unblock(rest[:size])
		if err != nil {
			return nil, broken(err)
		}
		if out = append(out, block...); len(out) > maxKernel {
			return nil, broken(errLZ4)
		}
		rest = rest[size:]
	}
	return out, nil
}

// lz4Unblock unpacks one block: literals, then a copy of what came before, and so
// on; the last sequence has literals only.
func lz4Unblock(in []byte) ([]byte, error) {
	out := make([]byte, 0, lz4Block)
	for len(in) > 0 {
		token := in[0]
		literals, rest, ok := lz4Length(int(token>>4), in[1:])
		if !ok || literals > len(rest) || len(out)+literals > lz4Block {
			return nil, errLZ4
		}
		out = append(out, rest[:literals]...)
		if in = rest[literals:]; len(in) == 0 {
			return out, nil
		}
		if len(in) < 2 {
			return nil, errLZ4
		}
		back := int(binary.LittleEndian.Uint16(in))
		length, rest, ok := lz4Length(int(token&15), in[2:])
		if length += 4; !ok || back == 0 || back > len(out) || len(out)+length > lz4Block {
			return nil, errLZ4
		}
		out = lz4Copy(out, back, length)
		in = rest
	}
	return out, nil
}

// lz4Length adds the bytes by which a length goes on.
func lz4Length(n int, in []byte) (int, []byte, bool) {
	if n < 15 {
		return n, in, true
	}
	for i, b := range in {
		if n += int(b); n > lz4Block {
			return 0, nil, false
		}
		if b < 255 {
			return n, in[i+1:], true
		}
	}
	return 0, nil, false
}

// lz4Copy repeats what lies so far back, which may overlap its own result.
func lz4Copy(out []byte, back, length int) []byte {
	for length > 0 {
		from := out[len(out)-back:]
		n := min(length, len(from))
		out = append(out, from[:n]...)
		length -= n
	}
	return out
}
