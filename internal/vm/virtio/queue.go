package virtio

import (
	"encoding/binary"
	"errors"

	"aether/internal/host/guestmem"
)

// maxQueue is the most entries of a queue.
const maxQueue = 256

// Errors of a guest that keeps to no rule. The device is of no use to it any more until
// it is reset, so that nothing bad is met twice.
var (
	errSize      = errors.New("virtio: the size of a queue is no power of two, or too large")
	errPlace     = errors.New("virtio: a queue is not aligned, or not in memory")
	errIndex     = errors.New("virtio: more was made available than a queue holds")
	errChain     = errors.New("virtio: a chain is endless, or leads out of its queue")
	errBuffer    = errors.New("virtio: a buffer is not in memory")
	errDirection = errors.New("virtio: a buffer to be read comes after one to be written")
	errLength    = errors.New("virtio: a chain is longer than 4 GiB")
	errFlags     = errors.New("virtio: a descriptor is of a kind that was not agreed on")
)

// geometry is where a queue is, as the guest says.
type geometry struct {
	Size              uint32
	Descriptors       uint64
	Available, Served uint64
	Ready             uint32
}

// queue is one that was found to be wholly in memory. It is used by one goroutine at a
// time.
type queue struct {
	memory *guestmem.Memory
	size   uint16
	// Two of its parts, in the guest's memory, which are only read, and where the third is, which
	// is asked for each time.
	descriptors, available []byte
	served                 uint64
	// availableWord is at which place in available the four bytes are that have its
	// index, and whether they are the upper half.
	availableWord int
	upper         bool
	// next is what comes next of what is available, and done how much was served. Both
	// are our own: what the guest has in its memory is not read back.
	next, done uint16
}

const (
	descriptorSize = 16
	servedSize     = 8
	ringHead       = 4
)

func newQueue(m *guestmem.Memory, g geometry) (*queue, error) {
	if g.Size == 0 || g.Size > maxQueue || g.Size&(g.Size-1) != 0 {
		return nil, errSize
	}
	if g.Descriptors%16 != 0 || g.Available%2 != 0 || g.Served%4 != 0 {
		return nil, errPlace
	}
	q := &queue{memory: m, size: uint16(g.Size), served: g.Served}
	size := uint64(g.Size)
	var ok [3]bool
	q.descriptors, ok[0] = m.View(g.Descriptors, descriptorSize*size)
	q.available, ok[1] = m.View(g.Available, ringHead+2*size)
	_, ok[2] = m.View(g.Served, ringHead+servedSize*size)
	if ok != [3]bool{true, true, true} {
		return nil, errPlace
	}
	// An index of two bytes is read with its neighbour: there is no atomic of less.
	if g.Available%4 == 0 {
		q.upper = true
	} else {
		q.availableWord = 2
	}
	return q, nil
}

// availableIndex is how much the guest has made available, ever.
func (q *queue) availableIndex() uint16 {
	word := guestmem.Load32(q.available[q.availableWord:])
	if q.upper {
		return uint16(word >> 16)
	}
	return uint16(word)
}

// unwanted says that the guest wants no interrupt for what is served.
func (q *queue) unwanted() bool {
	const noInterrupt = 1
	if q.upper { // the flags are the lower half of the same word
		return guestmem.Load32(q.available[q.availableWord:])&noInterrupt != 0
	}
	return binary.LittleEndian.Uint16(q.available)&noInterrupt != 0
}

// chain is a request of the guest: what it wrote, and room for the answer. Both are in
// its memory, and may change at any time.
type chain struct {
	read, write [][]byte
	// readable and writable are the lengths of each.
	readable, writable uint64
}

// pending says whether something is available.
func (q *queue) pending() (bool, error) {
	waiting := q.availableIndex() - q.next
	if waiting > q.size {
		return false, errIndex
	}
	return waiting > 0, nil
}

// serve has one chain used, if there is one, and tells the guest how many bytes were
// written to it. There is never more than one in use.
func (q *queue) serve(use func(*chain) uint32) (served bool, err error) {
	if some, err := q.pending(); !some || err != nil {
		return false, err
	}
	head := binary.LittleEndian.Uint16(q.available[ringHead+2*int(q.next%q.size):])
	c, err := q.walk(head)
	if err != nil {
		return false, err
	}
	q.next++
	written := use(c)
	ring, ok := q.memory.Slice(q.served, ringHead+servedSize*uint64(q.size))
	if !ok {
		return false, errPlace
	}
	entry := ring[ringHead+servedSize*int(q.done%q.size):]
	binary.LittleEndian.PutUint32(entry, uint32(head))
	binary.LittleEndian.PutUint32(entry[4:], uint32(min(uint64(written), c.writable)))
	q.done++
	guestmem.Store32(ring, uint32(q.done)<<16) // and no flags
	return true, nil
}

// Flags of a descriptor.
const (
	hasNext  = 1
	writable = 2
)

// walk follows a chain from its head.
func (q *queue) walk(head uint16) (*chain, error) {
	const most = 1<<32 - 1
	c := &chain{}
	for at, count := head, uint16(0); ; count++ {
		if at >= q.size || count >= q.size {
			return nil, errChain
		}
		var d [descriptorSize]byte // fetched once
		copy(d[:], q.descriptors[descriptorSize*int(at):])
		address, length := binary.LittleEndian.Uint64(d[:]), binary.LittleEndian.Uint32(d[8:])
		flags := binary.LittleEndian.Uint16(d[12:])
		if flags&^(hasNext|writable) != 0 {
			return nil, errFlags
		}
		if err := c.add(q.memory, address, length, flags&writable != 0); err != nil {
			return nil, err
		}
		if c.readable+c.writable > most {
			return nil, errLength
		}
		if flags&hasNext == 0 {
			return c, nil
		}
		at = binary.LittleEndian.Uint16(d[14:])
	}
}

func (c *chain) add(m *guestmem.Memory, address uint64, length uint32, write bool) error {
	if !write && c.write != nil {
		return errDirection
	}
	slice := m.View
	if write {
		slice = m.Slice
	}
	buffer, ok := slice(address, uint64(length))
	if !ok {
		return errBuffer
	}
	if write {
		c.write = append(c.write, buffer)
		c.writable += uint64(length)
		return nil
	}
	c.read = append(c.read, buffer)
	c.readable += uint64(length)
	return nil
}

// copyFrom takes bytes out of what the guest wrote, from an offset on.
func (c *chain) copyFrom(to []byte, offset uint64) int {
	return each(c.read, offset, uint64(len(to)), func(at int, part []byte) { copy(to[at:], part) })
}

// copyTo puts bytes where the guest will read, from an offset on.
func (c *chain) copyTo(from []byte, offset uint64) int {
	return each(c.write, offset, uint64(len(from)), func(at int, part []byte) { copy(part, from[at:]) })
}

// each calls for the parts of buffers that hold so many bytes from an offset on, and
// gives how many there were.
func each(buffers [][]byte, offset, length uint64, call func(at int, part []byte)) int {
	at := 0
	for _, b := range buffers {
		if offset >= uint64(len(b)) {
			offset -= uint64(len(b))
			continue
		}
		part := b[offset:]
		offset = 0
		part = part[:min(uint64(len(part)), length)]
		if len(part) == 0 {
			break
		}
		call(at, part)
		at += len(part)
		length -= uint64(len(part))
	}
	return at
}
