package virtio

import (
	"crypto/rand"
	"encoding/binary"
	"io"

	"aether/internal/host/guestmem"
)

// serveAll serves a queue, up to what it holds.
func serveAll(q *queue, use func(*chain) uint32) error {
	for range q.size {
		if served, err := q.serve(use); !served || err != nil {
			return err
		}
	}
	return nil
}

// entropy is the host's random numbers.
type entropy struct{}

// NewEntropy is a source of random numbers.
func NewEntropy(m *guestmem.Memory, interrupt func()) *Transport {
	return newTransport(m, entropy{}, interrupt)
}

func (entropy) id() uint32       { return 4 }
func (entropy) features() uint64 { return 0 }
func (entropy) queues() int      { return 1 }
func (entropy) config() []byte   { return nil }
func (entropy) reset()           {}

// maxEntropy is the most of one request.
const maxEntropy = 64 << 10

func (entropy) serve(n int, q []*queue) error {
	return serveAll(q[n], func(c *chain) uint32 {
		return uint32(each(c.write, 0, maxEntropy, func(_ int, part []byte) {
			_, _ = rand.Read(part) // never fails
		}))
	})
}

// Content is a disk's.
type Content interface {
	io.ReaderAt
	// Size is in bytes.
	Size() int64
}

// block is a disk that is only read.
type block struct {
	content Content
	about   [24]byte
}

// maxRead is the most of one request, four times what a kernel asks for: a guest that is to
// be paused is waited for until what it has asked for is done.
const maxRead = 16 << 20

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
	b := &block{content: content}
	binary.LittleEndian.PutUint64(b.about[:], uint64(b.sectors()))
	binary.LittleEndian.PutUint32(b.about[12:], maxQueue-2) // a request has a head and a status beside its segments
	binary.LittleEndian.PutUint32(b.about[20:], sector)
	return newTransport(m, b, interrupt)
}

func (*block) id() uint32       { return 2 }
func (*block) queues() int      { return 1 }
func (*block) reset()           {}
func (b *block) config() []byte { return b.about[:] }
func (*block) features() uint64 {
	return featureSegments | featureReadOnly | featureBlockSize | featureFlush
}

func (b *block) sectors() int64 { return (b.content.Size() + sector - 1) / sector }

func (b *block) serve(n int, q []*queue) error { return serveAll(q[n], b.request) }

// Kinds of requests, and answers.
const (
	requestRead     = 0
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
	case requestFlush:
		return 0, answerOK
	case requestIdentity:
		const identity = "aether\x00"
		return uint64(c.copyTo([]byte(identity)[:min(len(identity), int(min(room, 20)))], 0)), answerOK
	}
	return 0, answerUnsupported
}

// read reads whole sectors that are on the disk, straight into the guest's memory.
func (b *block) read(c *chain, at, length uint64) (uint64, byte) {
	sectors := uint64(b.sectors())
	if length > maxRead || length%sector != 0 || at > sectors || length/sector > sectors-at {
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
