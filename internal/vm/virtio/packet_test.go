package virtio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"testing"

	"aether/internal/host/guestmem"
)

// deaf is the socket of a host that says nothing and takes nothing.
type deaf struct {
	once   sync.Once
	closed chan struct{}
}

var errDeaf = errors.New("closed")

func (d *deaf) Read([]byte) (int, error)  { <-d.closed; return 0, io.EOF }
func (d *deaf) Write([]byte) (int, error) { <-d.closed; return 0, errDeaf }
func (d *deaf) CloseWrite() error         { return nil }
func (d *deaf) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// FuzzPackets has a guest say anything about a connection, and take answers or not. What is
// held for it stays bounded, whatever it says of its room and of what it has taken.
func FuzzPackets(f *testing.F) {
	step := func(what byte, p packet) []byte {
		head := p.bytes()
		return append([]byte{what}, head[16:]...)
	}
	agree := step(0, packet{fromPort: 1024, toPort: firstPort, kind: kindStream, op: opResponse, alloc: 1<<32 - 1})
	f.Add(agree)
	f.Add(bytes.Repeat(step(0, packet{op: opRequest}), 40))
	f.Add(append(bytes.Clone(agree), bytes.Repeat(step(0, packet{fromPort: 1024, toPort: firstPort, kind: kindStream, op: opData, length: 4000}), 40)...))
	f.Add(append(bytes.Clone(agree), bytes.Repeat(step(2, packet{fromPort: 1024, toPort: firstPort, kind: kindStream, op: opCreditRequest}), 40)...))
	f.Fuzz(func(t *testing.T, script []byte) {
		var v *Vsock
		g := newGuest(t, func(m *guestmem.Memory, interrupt func()) *Transport {
			v = NewVsock(m, 3, interrupt)
			return v.Transport
		})
		g.start()
		defer func() { g.write(regStatus, 0) }()
		if err := v.Connect(&deaf{closed: make(chan struct{})}, 1024, func(uint32) []byte { return nil }); err != nil {
			t.Fatal(err)
		}
		take := func() {
			g.describe(queueToGuest, 0, descriptor{buffers + 0x20000, 4096, writable, 0})
			g.offer(queueToGuest, 0)
			g.notify(queueToGuest)
		}
		take() // it is asked
		const rest = packetSize - 16
		for in := bytes.NewReader(script); in.Len() > rest; {
			what, _ := in.ReadByte() // there is one
			head := g.memory[buffers : buffers+packetSize]
			binary.LittleEndian.PutUint64(head, 3)
			binary.LittleEndian.PutUint64(head[8:], hostCID)
			if _, err := io.ReadFull(in, head[16:]); err != nil {
				t.Fatal(err)
			}
			g.describe(queueToHost, 0, descriptor{buffers, packetSize + 4096, 0, 0})
			g.offer(queueToHost, 0)
			g.notify(queueToHost)
			if what&2 != 0 {
				take()
			}
			v.Lock()
			s := v.sockets
			for port, c := range s.open {
				if held := len(c.inbox) + int(c.inFlight()); held > room || c.credit() > c.alloc {
					t.Errorf("port %d holds %d bytes, with credit for %d of %d", port, held, c.credit(), c.alloc)
				}
			}
			if len(s.replies) > maxReplies || len(s.open) > 1 {
				t.Errorf("%d answers wait, of %d connections", len(s.replies), len(s.open))
			}
			v.Unlock()
		}
	})
}
