package spawn

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// LoopbackUp brings the loopback of a new network namespace up: the kernel leaves it
// down, and programs expect to reach themselves.
func (s *Script) LoopbackUp() {
	const interfaceSize = 40 // struct ifreq
	request, mem := s.Bytes(interfaceSize)
	copy(mem, "lo")
	binary.LittleEndian.PutUint16(mem[16:], unix.IFF_UP)
	socket := s.Call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	socket.Into(s.Call(unix.SYS_IOCTL, 0, unix.SIOCSIFFLAGS, request), 0)
}
