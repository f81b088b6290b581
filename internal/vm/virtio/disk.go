package virtio

import (
	"encoding/binary"
	"io"

	"aether/internal/host/guestmem"
)

// Content is a disk's.
type Content interface {
	io.ReaderAt
	// Size is in bytes.
	Size() int64
}

// WritableContent is that of a disk that can be written to.
type WritableContent interface {
	Content
	io.WriterAt
}

// block is a disk.
type block struct {
	content Content
	writes  io.WriterAt // nil for one that is only read
	about   [24]byte
}

// maxTransfer is the most of one request, four times what a kernel asks for: a guest that is to
// be paused is waited for until what it has asked for is done.
const maxTransfer = 16 << 20

// Features of a disk.
const (
	featureSegments  = 1 << 2
	featureReadOnly  = 1 << 5
	featureBlockSize = 1 << 6
	featureFlush     = 1 << 9

	sector = 512
)

// NewDisk is a disk that is only read.
func NewDisk(m *guestmem.Memory, content Content, interrupt func()) *Transport {
	return newBlock(m, &block{content: content}, interrupt)
}

// NewWritableDisk is a disk that is read and written to. What was written is with content when the
// guest hears so; nobody has it any more when the host itself loses its power.
func NewWritableDisk(m *guestmem.Memory, content WritableContent, interrupt func()) *Transport {
	return newBlock(m, &block{content: content, writes: content}, interrupt)
}

func newBlock(m *guestmem.Memory, b *block, interrupt func()) *Transport {
	binary.LittleEndian.PutUint64(b.about[:], uint64(b.sectors()))
	binary.LittleEndian.PutUint32(b.about[12:], maxQueue-2) // a request has a head and a status beside its segments
	binary.LittleEndian.PutUint32(b.about[20:], sector)
	return newTransport(m, b, interrupt)
}

func (*block) id() uint32       { return 2 }
func (*block) queues() int      { return 1 }
func (*block) reset()           {}
func (b *block) config() []byte { return b.about[:] }
func (b *block) features() uint64 {
	offered := uint64(featureSegments | featureBlockSize | featureFlush)
	if b.writes == nil {
		offered |= featureReadOnly
	}
	return offered
}

func (b *block) sectors() int64 { return (b.content.Size() + sector - 1) / sector }

func (b *block) serve(n int, q []*queue) error { return serveAll(q[n], b.request) }

// Kinds of requests, and answers.
const (
	requestRead     = 0
	requestWrite    = 1
	requestFlush    = 4
	requestIdentity = 8

	answerOK          = 0
	answerFailed      = 1
	answerUnsupported = 2

	requestHead = 16
)

// request does one. The last byte that can be written is for how it went.
func (b *block) request(c *chain) uint32 {
	if c.writable == 0 {
		return 0 // nobody to tell
	}
	room := c.writable - 1
	written, answer := uint64(0), byte(answerFailed)
	var head [requestHead]byte
	if c.copyFrom(head[:], 0) == requestHead {
		written, answer = b.do(c, head, room)
	}
	c.copyTo([]byte{answer}, room)
	if written == room {
		return uint32(written + 1)
	}
	return uint32(written) // the guest learns how far it can read; the status comes after
}

func (b *block) do(c *chain, head [requestHead]byte, room uint64) (uint64, byte) {
	switch binary.LittleEndian.Uint32(head[:]) {
	case requestRead:
		return b.read(c, binary.LittleEndian.Uint64(head[8:]), room)
	case requestWrite:
		if b.writes != nil {
			return 0, b.write(c, binary.LittleEndian.Uint64(head[8:]))
		}
	case requestFlush:
		return 0, answerOK
	case requestIdentity:
		const identity = "aether\x00"
		return uint64(c.copyTo([]byte(identity)[:min(len(identity), int(min(room, 20)))], 0)), answerOK
	}
	return 0, answerUnsupported
}

// allows says whether a request is for whole sectors that are on the disk.
func (b *block) allows(at, length uint64) bool {
	sectors := uint64(b.sectors())
	return length <= maxTransfer && length%sector == 0 && at <= sectors && length/sector <= sectors-at
}

// write writes sectors straight out of the guest's memory, which may change meanwhile: then
// nobody knows what is written.
func (b *block) write(c *chain, at uint64) byte {
	length := c.readable - requestHead
	if !b.allows(at, length) {
		return answerFailed
	}
	failed := false
	each(c.read, requestHead, length, func(done int, part []byte) {
		if !failed {
			_, err := b.writes.WriteAt(part, int64(at*sector)+int64(done))
			failed = err != nil
		}
	})
	if failed {
		return answerFailed
	}
	return answerOK
}

// read reads sectors straight into the guest's memory.
func (b *block) read(c *chain, at, length uint64) (uint64, byte) {
	if !b.allows(at, length) {
		return 0, answerFailed
	}
	offset, failed := int64(at*sector), false
	written := each(c.write, 0, length, func(done int, part []byte) {
		n, err := b.content.ReadAt(part, offset+int64(done))
		if err == io.EOF {
			clear(part[n:]) // the last sector may be shorter than one
			err = nil
		}
		failed = failed || err != nil
	})
	if failed {
		return 0, answerFailed
	}
	return uint64(written), answerOK
}
