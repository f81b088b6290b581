package vm

import (
	"bytes"
	"hash/crc32"
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

// step is how much is written or left out at once.
const step = 64 << 10

var zero [step]byte

// sum is the checksum of a part, of which zero is not looked at before something else follows.
type sum struct {
	value uint32
	zeros int
	some  bool
}

func (s *sum) add(piece []byte) {
	s.flush()
	s.value, s.some = crc32.Update(s.value, castagnoli, piece), true
}

func (s *sum) flush() {
	for ; s.zeros > 0; s.zeros -= min(s.zeros, step) {
		s.value = crc32.Update(s.value, castagnoli, zero[:min(s.zeros, step)])
	}
}

// of is that of the part: zero if there was nothing else.
func (s *sum) of() uint32 {
	if !s.some {
		return 0
	}
	s.flush()
	return s.value
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
			piece := memory[start:min(start+step, filled[0].Start+filled[0].Size, end)]
			at = start + int64(len(piece))
			if bytes.Equal(piece, zero[:len(piece)]) {
				s.zeros += len(piece)
				continue
			}
			if _, err := to.WriteAt(piece, memoryStart+start); err != nil {
				return nil, err
			}
			s.add(piece)
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
				if at += int64(len(piece)); bytes.Equal(piece, zero[:len(piece)]) {
					s.zeros += len(piece)
				} else {
					s.add(piece)
				}
			}
		}
		if s.of() != want {
			return errMemory
		}
	}
	return nil
}
