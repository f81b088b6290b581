package netdev

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// Where a device and whoever reads it have nothing in common but a stream of bytes, each
// packet stands behind its length there: of the header and the Ethernet frame, in four
// bytes.
const lengthSize = 4

// MaxPacket is the longest that a device of any MTU gives, with its header.
const MaxPacket = HeaderSize + 14 + 1<<16

// HeaderSize is how long the header is that stands before each packet: a
// virtio_net_hdr, by which both sides leave out checksums that nothing can spoil.
const HeaderSize = 10

// packets are buffers that a packet fits into, and the length of the next. None is held
// while there is nothing to read: most devices say nothing most of the time.
var packets = sync.Pool{New: func() any { b := make([]byte, MaxPacket+lengthSize); return &b }}

// readPackets gives every packet of a stream to take, which does not keep it, until the
// stream ends: by io.EOF if that is between two packets. What is no packet is the end.
func readPackets(from io.Reader, take func(packet []byte)) error {
	var length [lengthSize]byte
	for have := 0; ; {
		if _, err := io.ReadFull(from, length[have:]); err != nil {
			if have > 0 && err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		size := binary.BigEndian.Uint32(length[:])
		if size < HeaderSize || size > MaxPacket {
			return fmt.Errorf("netdev: no packet has %d bytes", size)
		}
		var err error
		if have, err = readPacket(from, int(size), length[:], take); err != nil {
			return err
		}
	}
}

// readPacket reads one, with as much of the next one's length as there is.
func readPacket(from io.Reader, size int, next []byte, take func(packet []byte)) (have int, err error) {
	buffer := packets.Get().(*[]byte)
	defer packets.Put(buffer)
	n, err := io.ReadAtLeast(from, (*buffer)[:size+lengthSize], size)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, err
	}
	take((*buffer)[:size])
	return copy(next, (*buffer)[size:n]), nil
}

// appendLength is what stands before a packet.
func appendLength(to []byte, size int) []byte { return binary.BigEndian.AppendUint32(to, uint32(size)) }
