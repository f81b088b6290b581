package vm

import (
	"bytes"
	"math/bits"
	"os"

	"aether/internal/host/guestmem"
)

// The memory of a state has checksums against damage, of parts of at least a mebibyte.
// Zero, which has no place in the file, has none: its checksum is zero.

const (
	leastPart = 1 << 20
	maxParts  = 16 << 10
)

// partSize is of a part of so much memory.
func partSize(memory int64) int64 {
	size := int64(leastPart)
	if least := (memory + maxParts - 1) / maxParts; least > size {
		size = 1 << bits.Len64(uint64(least-1))
	}
	return size
}

func parts(memory int64) int64 { return (memory + partSize(memory) - 1) / partSize(memory) }

const (
	// pageSize is how much is written or left out.
	pageSize = 4 << 10
	// step is how much is read at once.
	step = 64 << 10
)

var zeroPage [pageSize]byte

// skim counts the zero pages at the beginning, and what lies between them and the next. Both
// are in bytes, and less than a page at the end counts for one.
func skim(memory []byte) (zeros, some int) {
	at := 0
	next := func() []byte { return memory[at:min(at+pageSize, len(memory))] }
	for ; at < len(memory) && bytes.Equal(next(), zeroPage[:len(next())]); at += len(next()) {
	}
	zeros = at
	for ; at < len(memory) && !bytes.Equal(next(), zeroPage[:len(next())]); at += len(next()) {
	}
	return zeros, at - zeros
}

// writeMemory leaves out what is zero, and gives the checksums of all parts. filled says where
// there may be something; the rest is not looked at.
func writeMemory(to *os.File, memory []byte, filled []guestmem.Extent) ([]uint32, error) {
	size := partSize(int64(len(memory)))
	sums := make([]uint32, parts(int64(len(memory))))
	for n := range sums {
		var s sum
		at, end := int64(n)*size, min(int64(n+1)*size, int64(len(memory)))
		for at < end {
			for len(filled) > 0 && filled[0].Start+filled[0].Size <= at {
				filled = filled[1:]
			}
			if len(filled) == 0 || filled[0].Start >= end {
				break
			}
			start := max(filled[0].Start, at)
			s.zeros += int(start - at)
			at = min(filled[0].Start+filled[0].Size, end)
			for start < at {
				zeros, some := skim(memory[start:at])
				s.zeros += zeros
				start += int64(zeros)
				run := memory[start : start+int64(some)]
				if _, err := to.WriteAt(run, memoryStart+start); err != nil {
					return nil, err
				}
				s.add(run)
				start += int64(some)
			}
		}
		s.zeros += int(end - at)
		sums[n] = s.of()
	}
	return sums, nil
}

// checkMemory reads what is not zero. Errors: errMemory.
func checkMemory(from *os.File, memory int64, sums []uint32) error {
	size := partSize(memory)
	buffer, there := make([]byte, step), guestmem.NewData(from)
	for n, want := range sums {
		var s sum
		end := memoryStart + min(int64(n+1)*size, memory)
		for at := memoryStart + int64(n)*size; at < end; {
			data, hole, err := there.From(at)
			if err != nil {
				return err
			}
			data, hole = min(data, end), min(hole, end)
			s.zeros += int(data - at)
			for at = data; at < hole; {
				piece := buffer[:min(step, hole-at)]
				if _, err := from.ReadAt(piece, at); err != nil {
					return err
				}
				at += int64(len(piece))
				for len(piece) > 0 {
					zeros, some := skim(piece)
					s.zeros += zeros
					s.add(piece[zeros : zeros+some])
					piece = piece[zeros+some:]
				}
			}
		}
		if s.of() != want {
			return errMemory
		}
	}
	return nil
}
