package vm

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"math/bits"
	"os"
	"syscall"
)

// The memory of a state has checksums against damage, of parts of at least a mebibyte.
// Zero, which has no place in the file, has none: its checksum is zero.

const (
	leastPart = 1 << 20
	maxParts  = 16 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// partSize is of a part of so much memory.
func partSize(memory int64) int64 {
	size := int64(leastPart)
	if least := (memory + maxParts - 1) / maxParts; least > size {
		size = 1 << bits.Len64(uint64(least-1))
	}
	return size
}

func parts(memory int64) int64 { return (memory + partSize(memory) - 1) / partSize(memory) }

// writeMemory leaves out what is zero, and gives the checksums of all parts.
func writeMemory(to *os.File, memory []byte) ([]uint32, error) {
	const step = 64 << 10
	var zero [step]byte
	size := int(partSize(int64(len(memory))))
	sums := make([]uint32, parts(int64(len(memory))))
	for n := range sums {
		rest := memory[n*size : min((n+1)*size, len(memory))]
		some := false
		for at := 0; at < len(rest); at += step {
			piece := rest[at:min(at+step, len(rest))]
			if bytes.Equal(piece, zero[:len(piece)]) {
				continue
			}
			some = true
			if _, err := to.WriteAt(piece, memoryStart+int64(n*size+at)); err != nil {
				return nil, err
			}
		}
		if some {
			sums[n] = crc32.Checksum(rest, castagnoli)
		}
	}
	return sums, nil
}

// checkMemory reads what is not zero. Errors: errMemory.
func checkMemory(from *os.File, memory int64, sums []uint32) error {
	size := partSize(memory)
	buffer := make([]byte, size)
	for n, sum := range sums {
		start, end := memoryStart+int64(n)*size, memoryStart+min(int64(n+1)*size, memory)
		there, err := dataAt(from, start)
		if err != nil {
			return err
		}
		if there >= end {
			if sum != 0 {
				return errMemory
			}
			continue
		}
		part := buffer[:end-start]
		if _, err := from.ReadAt(part, start); err != nil && err != io.EOF {
			return err
		}
		if crc32.Checksum(part, castagnoli) != sum && (sum != 0 || !allZero(part)) {
			return errMemory
		}
	}
	return nil
}

func allZero(part []byte) bool { return len(bytes.TrimLeft(part, "\x00")) == 0 }

// dataAt is where a file has something from an offset on; its end if nowhere.
func dataAt(file *os.File, offset int64) (int64, error) {
	const seekData = 3
	at, err := file.Seek(offset, seekData)
	if errors.Is(err, syscall.ENXIO) {
		return 1<<63 - 1, nil
	}
	return at, err
}
