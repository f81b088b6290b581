package gateway

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"aether/internal/host/netdev"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// Device gives and takes Ethernet frames. Read gives each to take, which does not keep it,
// until the device ends.
type Device interface {
	Read(take func(frame []byte)) error
	Write(sum netdev.Checksum, pieces [][]byte) error
	Close() error
}

// link is a device as the stack sees it: packets of IPv4 between two hosts whose
// hardware addresses are known. Frames of everything else are not for the stack: a
// question for the gateway's hardware address is answered here, and the rest dropped.
//
// The stack is spared whatever a sandbox could send that has no use here: ICMP, other
// protocols, fragments, addresses that are not the sandbox's own.
type link struct {
	device Device
	tap    netdev.Tap
	// first is called for the first packet that is for the stack, which attaches this then.
	// One that fails is called again for the next.
	first      func() error
	dispatcher stack.NetworkDispatcher
	reading    sync.WaitGroup
	writing    tasks
	dropped    *atomic.Int64
	ended      func(error)
}

const (
	etherSize = header.EthernetMinimumSize
	ipMinimum = header.IPv4MinimumSize
)

// Attach implements stack.LinkEndpoint.
func (l *link) Attach(d stack.NetworkDispatcher) { l.dispatcher = d }

func (l *link) start() {
	l.reading.Go(func() { l.ended(l.device.Read(l.take)) })
}

// take hands a frame to the stack, if it is for that.
func (l *link) take(frame []byte) {
	if len(frame) < etherSize {
		l.dropped.Add(1)
		return
	}
	switch binary.BigEndian.Uint16(frame[12:]) {
	case uint16(header.IPv4ProtocolNumber):
		if !l.wanted(frame[etherSize:]) || !l.raised() {
			l.dropped.Add(1)
			return
		}
		l.deliver(frame)
	case uint16(header.ARPProtocolNumber):
		l.answerARP(frame)
	default:
		l.dropped.Add(1)
	}
}

// raised says whether there is a stack, which there is from the first packet for it on: a
// sandbox that never sends one costs little.
func (l *link) raised() bool {
	if l.dispatcher != nil {
		return true
	}
	if err := l.first(); err != nil {
		slog.Error("gateway: no stack can be made", "err", err)
	}
	return l.dispatcher != nil
}

func (l *link) deliver(frame []byte) {
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithView(buffer.NewViewWithData(frame[etherSize:]))})
	l.dispatcher.DeliverNetworkPacket(header.IPv4ProtocolNumber, pkt)
	pkt.DecRef()
}

// wanted says whether a packet is one of TCP or UDP, whole, from the sandbox to somebody
// else.
func (l *link) wanted(packet []byte) bool {
	if len(packet) < ipMinimum {
		return false
	}
	ip := header.IPv4(packet)
	if proto := ip.TransportProtocol(); proto != header.TCPProtocolNumber && proto != header.UDPProtocolNumber {
		return false
	}
	source := l.tap.Address.As4()
	return !ip.More() && ip.FragmentOffset() == 0 && bytes.Equal(packet[12:16], source[:])
}

// answerARP tells the sandbox where its gateway is.
func (l *link) answerARP(frame []byte) {
	arp := header.ARP(frame[etherSize:])
	gateway := l.tap.Gateway.As4()
	if !arp.IsValid() || arp.Op() != header.ARPRequest || !bytes.Equal(arp.ProtocolAddressTarget(), gateway[:]) {
		l.dropped.Add(1)
		return
	}
	answer := make([]byte, etherSize+header.ARPSize)
	l.ethernet(answer, header.ARPProtocolNumber)
	reply := header.ARP(answer[etherSize:])
	reply.SetIPv4OverEthernet()
	reply.SetOp(header.ARPReply)
	copy(reply.HardwareAddressSender(), l.tap.GatewayHardware[:])
	copy(reply.ProtocolAddressSender(), gateway[:])
	copy(reply.HardwareAddressTarget(), arp.HardwareAddressSender())
	copy(reply.ProtocolAddressTarget(), arp.ProtocolAddressSender())
	if err := l.device.Write(netdev.Checksum{}, [][]byte{answer}); err != nil {
		slog.Debug("gateway: an answer was lost", "err", err)
	}
}

func (l *link) ethernet(frame []byte, protocol tcpip.NetworkProtocolNumber) {
	copy(frame, l.tap.Hardware[:])
	copy(frame[6:], l.tap.GatewayHardware[:])
	binary.BigEndian.PutUint16(frame[12:], uint16(protocol))
}

// WritePackets implements stack.LinkEndpoint.
func (l *link) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	var frame [etherSize]byte
	l.ethernet(frame[:], header.IPv4ProtocolNumber)
	sent := 0
	for _, pkt := range list.AsSlice() {
		if opensConnection(pkt) {
			l.writeLater(frame[:], pkt)
			sent++
			continue
		}
		if err := l.device.Write(checksumOf(pkt), append([][]byte{frame[:]}, pkt.AsSlices()...)); err != nil {
			return sent, &tcpip.ErrAborted{}
		}
		sent++
	}
	return sent, nil
}

// opensConnection says whether a packet is the answer to a connection's first.
func opensConnection(pkt *stack.PacketBuffer) bool {
	return pkt.TransportProtocolNumber == header.TCPProtocolNumber && header.TCP(pkt.TransportHeader().Slice()).Flags().Contains(header.TCPFlagSyn)
}

// writeLater has another goroutine send a packet. The stack sends the answer to a
// connection's first packet with the connection locked, and what answers that comes before
// the write is over: until then, whoever has it would try again and again.
func (l *link) writeLater(frame []byte, pkt *stack.PacketBuffer) {
	whole := slices.Concat(append([][]byte{frame}, pkt.AsSlices()...)...)
	sum := checksumOf(pkt)
	l.writing.run(func() {
		if err := l.device.Write(sum, [][]byte{whole}); err != nil {
			slog.Debug("gateway: an answer was lost", "err", err)
		}
	})
}

// checksumOf is where the transport's is, which the stack leaves out.
func checksumOf(pkt *stack.PacketBuffer) netdev.Checksum {
	sum := netdev.Checksum{Start: etherSize + len(pkt.NetworkHeader().Slice()), Offset: header.TCPChecksumOffset}
	if pkt.TransportProtocolNumber == header.UDPProtocolNumber {
		sum.Offset = 6
	}
	return sum
}

// MTU implements stack.LinkEndpoint.
func (l *link) MTU() uint32 { return uint32(l.tap.MTU) }

// SetMTU implements stack.LinkEndpoint.
func (l *link) SetMTU(uint32) {}

// MaxHeaderLength implements stack.LinkEndpoint.
func (l *link) MaxHeaderLength() uint16 { return 0 }

// LinkAddress implements stack.LinkEndpoint.
func (l *link) LinkAddress() tcpip.LinkAddress { return "" }

// SetLinkAddress implements stack.LinkEndpoint.
func (l *link) SetLinkAddress(tcpip.LinkAddress) {}

// Capabilities implements stack.LinkEndpoint. What comes out of this host's memory has
// no need of checksums, and what goes into it says so.
func (l *link) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityRXChecksumOffload | stack.CapabilityTXChecksumOffload
}

// IsAttached implements stack.LinkEndpoint.
func (l *link) IsAttached() bool { return l.dispatcher != nil }

// Wait implements stack.LinkEndpoint.
func (l *link) Wait() {}

// ARPHardwareType implements stack.LinkEndpoint.
func (l *link) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareNone }

// AddHeader implements stack.LinkEndpoint.
func (l *link) AddHeader(*stack.PacketBuffer) {}

// ParseHeader implements stack.LinkEndpoint.
func (l *link) ParseHeader(*stack.PacketBuffer) bool { return true }

// Close implements stack.LinkEndpoint.
func (l *link) Close() {}

// SetOnCloseAction implements stack.LinkEndpoint.
func (l *link) SetOnCloseAction(func()) {}
