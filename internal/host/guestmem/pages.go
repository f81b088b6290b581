package guestmem

import "math/bits"

// Pages is a bit for each page of memory, as the kernel has it.
type Pages []uint64

const pageSize = 4096

// NewPages is none of so much memory.
func NewPages(size int64) Pages { return make(Pages, words(size)) }

func words(size int64) int64 { return (size + 64*pageSize - 1) / (64 * pageSize) }

// Add adds pages, of which there may be fewer.
func (p Pages) Add(others Pages) {
	for n, bits := range others {
		p[n] |= bits
	}
}

// runs are the pages, as of a file.
func (p Pages) runs(file uint32) (list []Extent) {
	for n, set := range p {
		for set != 0 {
			first := bits.TrailingZeros64(set)
			count := bits.TrailingZeros64(^(set >> first))
			list = addRun(list, Extent{int64(n*64+first) * pageSize, int64(count) * pageSize, file})
			if first+count == 64 {
				break
			}
			set &= ^uint64(0) << (first + count)
		}
	}
	return list
}
