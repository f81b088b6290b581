package netdev

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// Where an ordinary user may not open the tap's device node, the sandbox has a pair of
// virtual cables instead, both ends in its own namespace: what it sends by one comes out
// of the other, where a packet socket takes it. No node is needed for that, only the
// rights that the owner of a user namespace has in it.
const (
	peerName  = "gateway0"
	ourIndex  = 100
	peerIndex = 101
	// vethMTU is less than a tap's: a packet socket's queue is bounded by what the host
	// gives every socket, and holds a few packets of the largest kind.
	vethMTU = 16 << 10
)

// netlinkFd and packetFd are the child's descriptors.
const (
	netlinkFd = iota
	_         // inetFd, of configure
	packetFd
)

// makeVeth has a child make the cables and send the socket.
func (t Tap) makeVeth(way Way, socket int) error {
	s, err := spawn.NewScript(8 << 10)
	if err != nil {
		return err
	}
	t.MTU = min(t.MTU, vethMTU)
	s.TellParted()
	s.Call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
	way.enter(s)
	answer := t.link(s)
	t.configure(s)
	peer := t
	peer.Name = peerName
	s.Call(unix.SYS_IOCTL, inetFd, unix.SIOCSIFMTU, peer.interfaceRequest(s, binary.NativeEndian.AppendUint32(nil, uint32(t.MTU))))
	s.Call(unix.SYS_IOCTL, inetFd, unix.SIOCSIFFLAGS, peer.request(s, unix.IFF_UP|unix.IFF_NOARP))
	t.activate(s)
	t.packetSocket(s) // not before the device is up, or that is what is read first
	s.Call(unix.SYS_SENDMSG, uintptr(socket), rightsMessage(s, packetFd), 0)
	s.Exit()
	return walk(s, func() error {
		if errno := -int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); errno > 0 {
			return fmt.Errorf("make a pair of virtual cables: %w", syscall.Errno(errno))
		}
		return nil
	})
}

// link appends the making of the pair, and gives the kernel's answer to it.
func (t Tap) link(s *spawn.Script) (answer []byte) {
	number(s, s.Call(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE), netlinkFd)
	peer := append(linkHeader(peerIndex), attribute(unix.IFLA_IFNAME, append([]byte(peerName), 0))...)
	info := attribute(unix.IFLA_INFO_KIND, []byte("veth"))
	const vethInfoPeer = 1
	info = append(info, attribute(unix.IFLA_INFO_DATA, attribute(vethInfoPeer, peer))...)
	body := append(linkHeader(ourIndex), attribute(unix.IFLA_IFNAME, append([]byte(t.Name), 0))...)
	body = append(body, attribute(unix.IFLA_LINKINFO, info)...)
	return ask(s, unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, body)
}

// activate appends that the sandbox's end, which came up before the other, sends from now
// on: the kernel would have it do so later, and drop what is sent before. What the kernel
// answers does not matter, since one that has no packet schedulers does not know the request.
func (t Tap) activate(s *spawn.Script) {
	const root = 0xffffffff  // TC_H_ROOT
	body := make([]byte, 20) // struct tcmsg
	binary.NativeEndian.PutUint32(body[4:], ourIndex)
	binary.NativeEndian.PutUint32(body[12:], root)
	const kind = 1 // TCA_KIND
	ask(s, unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, append(body, attribute(kind, []byte("noqueue\x00"))...))
}

// ask appends a request to the kernel, and gives its answer.
func ask(s *spawn.Script, kind, flags uint16, body []byte) (answer []byte) {
	message := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	message = binary.NativeEndian.AppendUint16(message, kind)
	message = binary.NativeEndian.AppendUint16(message, unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	message = append(append(message, make([]byte, 8)...), body...)
	at, mem := s.Bytes(len(message))
	copy(mem, message)
	const answerSize = 1024
	to, answer := s.Bytes(answerSize)
	s.Call(unix.SYS_SENDTO, netlinkFd, at, uintptr(len(message)), 0, 0, 0)
	s.Call(unix.SYS_RECVFROM, netlinkFd, to, answerSize, 0, 0, 0)
	return answer
}

// packetSocket appends the socket at the other end.
func (t Tap) packetSocket(s *spawn.Script) {
	all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8
	number(s, s.Call(unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0), packetFd)
	one, mem := s.Bytes(4)
	binary.NativeEndian.PutUint32(mem, 1)
	for _, option := range []uintptr{unix.PACKET_VNET_HDR, unix.PACKET_IGNORE_OUTGOING} {
		s.Call(unix.SYS_SETSOCKOPT, packetFd, unix.SOL_PACKET, option, one, 4)
	}
	const addressSize = 20 // struct sockaddr_ll
	address, mem := s.Bytes(addressSize)
	binary.NativeEndian.PutUint16(mem, unix.AF_PACKET)
	binary.NativeEndian.PutUint16(mem[2:], all)
	binary.NativeEndian.PutUint32(mem[4:], peerIndex)
	s.Call(unix.SYS_BIND, packetFd, address, addressSize)
}

// linkHeader is an ifinfomsg.
func linkHeader(index uint32) []byte {
	text := make([]byte, 16)
	binary.NativeEndian.PutUint32(text[4:], index)
	return text
}

func attribute(kind uint16, value []byte) []byte {
	text := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	text = append(binary.NativeEndian.AppendUint16(text, kind), value...)
	return append(text, make([]byte, (4-len(text)%4)%4)...)
}
