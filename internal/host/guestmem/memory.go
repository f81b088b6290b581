// Package guestmem is the memory of a guest as its monitor sees it: one mapping of this
// process that the guest sees at one or two ranges of physical addresses. Whatever is in
// it may change at any time, by the guest's hand. What is in there is not its business.
package guestmem

import (
	"sync/atomic"
	"unsafe"
)

// The addresses between low memory and 4 GiB belong to devices and to the interrupt
// controllers of the processors.
const (
	LowEnd    = 3 << 30
	HighStart = 4 << 30
)

// Memory is all that a guest has.
type Memory struct {
	bytes []byte
	// taken are the pages that Slice gave.
	taken []atomic.Uint64
}

// New is memory in bytes, which begin at an address that is a multiple of eight.
func New(bytes []byte) *Memory {
	return &Memory{bytes, make([]atomic.Uint64, words(int64(len(bytes))))}
}

// Range is one run of physical addresses, and the bytes there.
type Range struct {
	Start uint64
	Bytes []byte
}

// Ranges are where the guest sees its memory.
func (m *Memory) Ranges() []Range {
	if uint64(len(m.bytes)) <= LowEnd {
		return []Range{{0, m.bytes}}
	}
	return []Range{{0, m.bytes[:LowEnd]}, {HighStart, m.bytes[LowEnd:]}}
}

// Bytes is all of it, high after low.
func (m *Memory) Bytes() []byte { return m.bytes }

// Slice is the memory at an address that the guest named, or false if it is not wholly
// memory of one range. Whoever writes to it does so before the next Taken.
func (m *Memory) Slice(address, size uint64) ([]byte, bool) {
	return m.slice(address, size, true)
}

// View is Slice for who never writes to it.
func (m *Memory) View(address, size uint64) ([]byte, bool) {
	return m.slice(address, size, false)
}

func (m *Memory) slice(address, size uint64, take bool) ([]byte, bool) {
	before := uint64(0)
	for _, r := range m.Ranges() {
		length := uint64(len(r.Bytes))
		if address < r.Start || address-r.Start > length || size > length-(address-r.Start) {
			before += length
			continue
		}
		at := address - r.Start
		if take && size > 0 {
			m.take((before+at)/pageSize, (before+at+size-1)/pageSize)
		}
		return r.Bytes[at : at+size : at+size], true
	}
	return nil, false
}

// take notes pages, from the first to the last.
func (m *Memory) take(first, last uint64) {
	for n := first / 64; n <= last/64; n++ {
		bits := ^uint64(0)
		if n == first/64 {
			bits <<= first % 64
		}
		if n == last/64 {
			bits &= ^uint64(0) >> (63 - last%64)
		}
		if m.taken[n].Load()&bits != bits {
			m.taken[n].Or(bits)
		}
	}
}

// Taken adds the pages of which Slice has given something since the last call.
func (m *Memory) Taken(to Pages) {
	for n := range m.taken {
		if m.taken[n].Load() != 0 {
			to[n] |= m.taken[n].Swap(0)
		}
	}
}

// Load32 reads four bytes at once that another processor may be writing. The bytes begin
// at a multiple of four.
func Load32(b []byte) uint32 { return atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[:4][0]))) }

// Store32 writes four bytes at once, after everything that was written before. The bytes
// begin at a multiple of four.
func Store32(b []byte, v uint32) { atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[:4][0])), v) }
