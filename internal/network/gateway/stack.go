package gateway

import (
	"errors"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

const (
	nic = 1
	// halfOpen is how many connections of a sandbox can be in the making at once.
	halfOpen = 128
)

// raise makes the stack, of which the link is the only device.
func (g *Gateway) raise() error {
	g.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	if err := g.configure(); err != nil {
		g.stack.Close()
		g.stack, g.link.dispatcher = nil, nil
		return err
	}
	return nil
}

// configure has the stack take every packet of the sandbox's, whomever it is for.
func (g *Gateway) configure() error {
	if err := g.tune(); err != nil {
		return err
	}
	forward := tcp.NewForwarder(g.stack, 0, halfOpen, g.acceptTCP)
	g.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, forward.HandlePacket)
	g.stack.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(g.stack, g.acceptUDP).HandlePacket)
	if err := g.stack.CreateNIC(nic, g.link); err != nil {
		return errors.New(err.String())
	}
	address := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddrFrom4(g.opts.Tap.Gateway.As4()).WithPrefix()}
	if err := g.stack.AddProtocolAddress(nic, address, stack.AddressProperties{}); err != nil {
		return errors.New(err.String())
	}
	if err := errors.Join(asError(g.stack.SetPromiscuousMode(nic, true)), asError(g.stack.SetSpoofing(nic, true))); err != nil {
		return err
	}
	everywhere, err := tcpip.NewSubnet(tcpip.AddrFrom4([4]byte{}), tcpip.MaskFromBytes(make([]byte, 4)))
	if err != nil {
		return err
	}
	g.stack.SetRouteTable([]tcpip.Route{{Destination: everywhere, NIC: nic}})
	return nil
}

// Buffers of connections, in bytes: what they begin with and what they may grow to. A
// stream needs the most to be fast, and there can be few of those: see widen.
const (
	leastBuffer = 16 << 10
	firstBuffer = 256 << 10
	mostBuffer  = 4 << 20
)

func (g *Gateway) tune() error {
	send := tcpip.TCPSendBufferSizeRangeOption{Min: leastBuffer, Default: firstBuffer, Max: mostBuffer}
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: leastBuffer, Default: firstBuffer, Max: mostBuffer}
	sack, moderate := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(true)
	return errors.Join(
		asError(g.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &send)),
		asError(g.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &receive)),
		asError(g.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &sack)),
		asError(g.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &moderate)))
}

func asError(err tcpip.Error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.String())
}
