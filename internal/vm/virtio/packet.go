package virtio

import "encoding/binary"

// packet is the head of what goes over a vsock.
type packet struct {
	from, to         uint64
	fromPort, toPort uint32
	length           uint32
	kind, op         uint16
	flags            uint32
	// alloc is how much the sender has room for, and forwarded how much of what it got
	// has left that room, ever.
	alloc, forwarded uint32
}

const packetSize = 44

// Operations.
const (
	opRequest       = 1
	opResponse      = 2
	opReset         = 3
	opShutdown      = 4
	opData          = 5
	opCredit        = 6
	opCreditRequest = 7
)

// Flags of opShutdown: what the sender will not do any more.
const (
	noReceive = 1
	noSend    = 2
)

const kindStream = 1

func parsePacket(b *[packetSize]byte) packet {
	le := binary.LittleEndian
	return packet{le.Uint64(b[0:]), le.Uint64(b[8:]), le.Uint32(b[16:]), le.Uint32(b[20:]), le.Uint32(b[24:]), le.Uint16(b[28:]), le.Uint16(b[30:]),
		le.Uint32(b[32:]), le.Uint32(b[36:]), le.Uint32(b[40:])}
}

func (p packet) bytes() (b [packetSize]byte) {
	le := binary.LittleEndian
	le.PutUint64(b[0:], p.from)
	le.PutUint64(b[8:], p.to)
	le.PutUint32(b[16:], p.fromPort)
	le.PutUint32(b[20:], p.toPort)
	le.PutUint32(b[24:], p.length)
	le.PutUint16(b[28:], p.kind)
	le.PutUint16(b[30:], p.op)
	le.PutUint32(b[32:], p.flags)
	le.PutUint32(b[36:], p.alloc)
	le.PutUint32(b[40:], p.forwarded)
	return b
}
