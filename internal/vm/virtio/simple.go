package virtio

import (
	"crypto/rand"

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
