package netdev

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// memory is where the structs that the kernel is given are put: a script's, or this
// program's own.
type memory interface {
	Bytes(size int) (at uintptr, mem []byte)
	String(text string) (at uintptr)
}

// address makes the requests that give the device its addresses and the way to everything
// else.
func (t Tap) address(m memory, ioctl func(request, argument uintptr)) {
	hardware := make([]byte, 16)
	binary.NativeEndian.PutUint16(hardware, unix.ARPHRD_ETHER)
	copy(hardware[2:], t.Hardware[:])
	ioctl(unix.SIOCSIFHWADDR, t.interfaceRequest(m, hardware))
	ioctl(unix.SIOCSIFMTU, t.interfaceRequest(m, binary.NativeEndian.AppendUint32(nil, uint32(t.MTU))))
	ioctl(unix.SIOCSIFADDR, t.interfaceRequest(m, sockaddr(t.Address)))
	ioctl(unix.SIOCSIFNETMASK, t.interfaceRequest(m, sockaddr(netip.AddrFrom4([4]byte{255, 255, 255, 255}))))
	ioctl(unix.SIOCSIFFLAGS, t.request(m, unix.IFF_UP))
	ioctl(unix.SIOCADDRT, t.route(m, t.Gateway, netip.Addr{}, 32))
	ioctl(unix.SIOCADDRT, t.route(m, netip.IPv4Unspecified(), t.Gateway, 0))
	ioctl(unix.SIOCSARP, t.neighbour(m))
}

// request is the address of an ifreq with flags.
func (t Tap) request(m memory, flags uint16) uintptr {
	return t.interfaceRequest(m, binary.NativeEndian.AppendUint16(nil, flags))
}

// interfaceRequest is the address of an ifreq.
func (t Tap) interfaceRequest(m memory, value []byte) uintptr {
	at, mem := m.Bytes(ifreqSize)
	copy(mem[:unix.IFNAMSIZ-1], t.Name)
	copy(mem[unix.IFNAMSIZ:], value)
	return at
}

// sockaddr is a sockaddr_in.
func sockaddr(a netip.Addr) []byte {
	text := make([]byte, 16)
	binary.NativeEndian.PutUint16(text, unix.AF_INET)
	copy(text[4:], a.AsSlice())
	return text
}

// route is the address of an rtentry: a way by the device, through a gateway if that is
// valid.
func (t Tap) route(m memory, to, gateway netip.Addr, bits int) uintptr {
	at, mem := m.Bytes(rtentrySize)
	flags := uint16(unix.RTF_UP)
	copy(mem[8:], sockaddr(to))
	if gateway.IsValid() {
		copy(mem[24:], sockaddr(gateway))
		flags |= unix.RTF_GATEWAY
	}
	mask := netip.IPv4Unspecified()
	if bits == 32 {
		mask = netip.AddrFrom4([4]byte{255, 255, 255, 255})
		flags |= unix.RTF_HOST
	}
	copy(mem[40:], sockaddr(mask))
	binary.NativeEndian.PutUint16(mem[56:], flags)
	device := m.String(t.Name)
	binary.NativeEndian.PutUint64(mem[88:], uint64(device))
	return at
}

// neighbour is the address of an arpreq that says for good where the gateway is.
func (t Tap) neighbour(m memory) uintptr {
	at, mem := m.Bytes(arpreqSize)
	copy(mem, sockaddr(t.Gateway))
	binary.NativeEndian.PutUint16(mem[16:], unix.ARPHRD_ETHER)
	copy(mem[18:], t.GatewayHardware[:])
	binary.NativeEndian.PutUint32(mem[32:], known|permanent)
	copy(mem[52:67], t.Name)
	return at
}
