package spawn

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// MaxRights is how many descriptors the kernel passes in one message.
const MaxRights = 253

// Receive appends the taking of so many descriptors, sent MaxRights to a message,
// from a socket. Each gets the lowest number that is free.
func (s *Script) Receive(socket, count int, flags uintptr) {
	for left := count; left > 0; left -= MaxRights {
		s.Call(unix.SYS_RECVMSG, uintptr(socket), s.message(min(left, MaxRights)), flags)
	}
}

// message is the address of a msghdr with room for a byte and so many descriptors.
func (s *Script) message(count int) uintptr {
	const messageSize, vectorSize = 56, 16
	data, _ := s.Bytes(8)
	vector, mem := s.Bytes(vectorSize)
	binary.NativeEndian.PutUint64(mem, uint64(data))
	binary.NativeEndian.PutUint64(mem[8:], 1)
	space := unix.CmsgSpace(4 * count)
	control, _ := s.Bytes(space)
	message, mem := s.Bytes(messageSize)
	binary.NativeEndian.PutUint64(mem[16:], uint64(vector))
	binary.NativeEndian.PutUint64(mem[24:], 1)
	binary.NativeEndian.PutUint64(mem[32:], uint64(control))
	binary.NativeEndian.PutUint64(mem[40:], uint64(space))
	return message
}
