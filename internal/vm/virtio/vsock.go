package virtio

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"time"

	"aether/internal/host/guestmem"
)

const (
	hostCID = 2
	// maxConnections bounds what the host opens; the guest opens none.
	maxConnections = 1023
	// maxReplies bounds what the guest has caused us to say and does not take. Until it
	// does, it is not listened to.
	maxReplies = 256
	// room is what we hold of a connection that the host does not read, and what a guest
	// is told that we do.
	room = 64 << 10
	// answerTime is how long a guest may take to agree to a connection.
	answerTime = 10 * time.Second
	// firstPort is where our own numbers begin.
	firstPort = 1 << 30
)

// The queues of a vsock.
const (
	queueToGuest = iota
	queueToHost
	queueEvents
)

// Socket is the host's end of a connection.
type Socket interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// Vsock connects sockets of the host to ports of the guest.
type Vsock struct {
	*Transport
	sockets *sockets
}

// sockets is the device. The transport's lock is around all of it.
type sockets struct {
	cid       uint64
	about     [8]byte
	transport *Transport
	open      map[uint32]*connection
	unasked   int // of those that are open
	lastPort  uint32
	replies   []packet
	// taken is told when the guest may have made room for packets to it.
	taken *sync.Cond
	// resetDue says that the guest is to be told that its connections are gone, and held
	// that it was, and has not taken note of it.
	resetDue, held bool
}

// NewVsock is the vsock of a guest of a number.
func NewVsock(m *guestmem.Memory, cid uint64, interrupt func()) *Vsock {
	s := &sockets{cid: cid, open: map[uint32]*connection{}, lastPort: firstPort}
	binary.LittleEndian.PutUint64(s.about[:], cid)
	s.transport = newTransport(m, s, interrupt)
	s.taken = sync.NewCond(&s.transport.mu)
	return &Vsock{s.transport, s}
}

func (*sockets) id() uint32       { return 19 }
func (*sockets) features() uint64 { return 0 }
func (*sockets) queues() int      { return 3 }
func (s *sockets) config() []byte { return s.about[:] }

// reset ends the connections that the guest knew of. Those that wait for it to look for its
// devices go on waiting.
func (s *sockets) reset() {
	for _, c := range s.open {
		if c.asked {
			c.drop()
		}
	}
	s.replies, s.resetDue, s.held = nil, false, false
	s.taken.Broadcast()
}

// Save gives the state of the device. Connections are no part of it.
func (v *Vsock) Save() State {
	s := v.Transport.Save()
	s.LastPort = v.sockets.lastPort
	return s
}

// Restore gives the device a state, of which the guest is told first that its connections
// are gone.
func (v *Vsock) Restore(s State) error {
	if err := v.Transport.Restore(s); err != nil {
		return err
	}
	v.sockets.lastPort = max(s.LastPort, firstPort)
	v.sockets.resetDue = v.active != nil
	return nil
}

// ErrConnections is that a guest has too many.
var ErrConnections = errors.New("virtio: the guest has too many connections")

// Connect connects a socket to a port of the guest, as soon as it takes connections. The
// socket is closed if it takes none; welcome is written to it if it does.
func (v *Vsock) Connect(socket Socket, port uint32, welcome func(hostPort uint32) []byte) error {
	v.Lock()
	defer v.Unlock()
	s := v.sockets
	if len(s.open) >= maxConnections {
		return errors.Join(ErrConnections, socket.Close())
	}
	for s.open[s.lastPort] != nil || s.lastPort < firstPort {
		s.lastPort = max(s.lastPort+1, firstPort) // there are fewer than numbers
	}
	c := &connection{of: s, socket: socket, hostPort: s.lastPort, guestPort: port, welcome: welcome}
	c.readable, c.writable = sync.NewCond(&s.transport.mu), sync.NewCond(&s.transport.mu)
	s.open[c.hostPort] = c
	s.lastPort++
	s.unasked++
	time.AfterFunc(answerTime, c.giveUp)
	before := s.transport.doneAll()
	s.ask()
	s.settle(before)
	return nil
}

// ask asks the guest for the connections that it was not asked for yet, as far as it
// listens. The lock is held.
func (s *sockets) ask() {
	if s.transport.active == nil || s.held || s.resetDue || s.unasked == 0 {
		return
	}
	for _, c := range s.open {
		if !c.asked && len(s.replies) < maxReplies {
			c.asked = true
			s.unasked--
			s.reply(c.packet(opRequest))
		}
	}
}

// settle delivers what is to be said and tells the guest. The lock is held.
func (s *sockets) settle(before [maxQueues]uint16) {
	if s.transport.active == nil {
		return
	}
	if err := s.flush(s.transport.active); err != nil {
		s.transport.fail()
		return
	}
	s.transport.tell(before)
}

func (s *sockets) serve(n int, q []*queue) error {
	if n == queueEvents {
		s.held = false // the guest has taken note, and given the event's room back
		if err := s.tellReset(q); err != nil {
			return err
		}
	}
	// Answers first: they make room for what causes more.
	if err := s.flush(q); err != nil {
		return err
	}
	if err := s.hear(q); err != nil {
		return err
	}
	if n != queueToHost {
		s.taken.Broadcast()
		s.ask()
	}
	return s.flush(q)
}

// tellReset tells the guest that its connections are gone, once there is room for it.
func (s *sockets) tellReset(q []*queue) error {
	events := q[queueEvents]
	if !s.resetDue || events == nil {
		return nil
	}
	const eventSize = 4
	told := false
	served, err := events.serve(func(c *chain) uint32 {
		told = c.copyTo(make([]byte, eventSize), 0) == eventSize // a reset is event 0
		return eventSize
	})
	if served && told {
		s.resetDue, s.held = false, true
	}
	return err
}

// reply says something to the guest when it takes it. Whoever calls it has seen that
// there is room.
func (s *sockets) reply(p packet) { s.replies = append(s.replies, p) }

// flush gives the guest what is to be said, as far as it has room.
func (s *sockets) flush(q []*queue) error {
	for len(s.replies) > 0 {
		sent, err := s.deliver(q, s.replies[0], nil)
		if err != nil || sent < 0 {
			return err
		}
		s.replies = s.replies[1:]
	}
	s.replies = nil
	return nil
}

// deliver gives the guest one packet with the beginning of data, and says how much of it
// that was; less than zero if there is no room now.
func (s *sockets) deliver(q []*queue, p packet, data []byte) (int, error) {
	to := q[queueToGuest]
	if to == nil || s.held || s.resetDue {
		return -1, nil
	}
	sent := -1
	for range to.size {
		served, err := to.serve(func(c *chain) uint32 {
			if c.writable < packetSize || c.writable == packetSize && len(data) > 0 {
				return 0 // of no use, and gone
			}
			sent = int(min(uint64(len(data)), c.writable-packetSize))
			p.length = uint32(sent)
			head := p.bytes()
			c.copyTo(head[:], 0)
			c.copyTo(data[:sent], packetSize)
			return uint32(packetSize + sent)
		})
		if err != nil || !served || sent >= 0 {
			return sent, err
		}
	}
	return sent, nil
}

// hear takes packets of the guest, as long as there is room for what they may cause.
func (s *sockets) hear(q []*queue) error {
	from := q[queueToHost]
	if from == nil {
		return nil
	}
	for range from.size {
		if len(s.replies) >= maxReplies {
			return nil
		}
		if served, err := from.serve(func(c *chain) uint32 { s.take(c); return 0 }); !served || err != nil {
			return err
		}
	}
	return nil
}

// take takes one packet. Head and data may be in one piece or in many.
func (s *sockets) take(c *chain) {
	var head [packetSize]byte
	if c.copyFrom(head[:], 0) != packetSize {
		return
	}
	p := parsePacket(&head)
	if p.from != s.cid || p.to != hostCID {
		return
	}
	to := s.open[p.toPort]
	known := to != nil && to.guestPort == p.fromPort && to.asked
	if p.kind != kindStream || !known {
		if p.op != opReset {
			s.reply(packet{from: hostCID, to: s.cid, fromPort: p.toPort, toPort: p.fromPort, kind: p.kind, op: opReset})
		}
		return
	}
	var data []byte
	if p.op == opData {
		if p.length > room || uint64(p.length) > c.readable-packetSize {
			to.abort()
			return
		}
		data = make([]byte, p.length)
		c.copyFrom(data, packetSize)
	}
	to.take(p, data)
}
