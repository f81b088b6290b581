package vm

import (
	"hash/crc32"
	"sync"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the checksum of a part, CRC-32C, in which zeros take no time. It is that of all
// bytes, or zero if there are only zeros.
type sum struct {
	value uint32
	zeros int // that have come since
	some  bool
}

func (s *sum) add(run []byte) {
	if len(run) > 0 {
		s.value, s.zeros, s.some = crc32.Update(afterZeros(s.value, s.zeros), castagnoli, run), 0, true
	}
}

func (s *sum) of() uint32 {
	if !s.some {
		return 0
	}
	return afterZeros(s.value, s.zeros)
}

// afterZeros is a checksum that goes on over zeros. What a zero byte does to the register of a
// CRC is linear, so what any number of them do is a matrix.
func afterZeros(value uint32, count int) uint32 {
	register := ^value
	for i := 0; count > 0; i, count = i+1, count>>1 {
		if count&1 != 0 {
			register = powers()[i].of(register)
		}
	}
	return ^register
}

// matrix has what each bit of a register becomes.
type matrix [32]uint32

func (m *matrix) of(register uint32) (result uint32) {
	for i := 0; register != 0; i, register = i+1, register>>1 {
		result ^= m[i] & -(register & 1)
	}
	return result
}

// powers are for 1, 2, 4 and so on zero bytes, up to more than a part has.
var powers = sync.OnceValue(func() *[40]matrix {
	var list [40]matrix
	for bit := range list[0] {
		register := uint32(1) << bit
		list[0][bit] = castagnoli[byte(register)] ^ register>>8
	}
	for i := range len(list) - 1 {
		for bit := range list[i] {
			list[i+1][bit] = list[i].of(list[i][bit])
		}
	}
	return &list
})
