package netdevtest

import (
	"errors"
	"io"
	"net"
)

// Here is the net namespace of the caller, for Echo.
func Here(fn func() error) error { return fn() }

// Echo is a server that says what it hears, by TCP and by UDP, at an address with a port of
// a net namespace that in runs functions in.
func Echo(in func(func() error) error, address string) (stop func(), err error) {
	var listener net.Listener
	var packets net.PacketConn
	err = in(func() (err error) {
		if listener, err = net.Listen("tcp4", address); err != nil {
			return err
		}
		if packets, err = net.ListenPacket("udp4", address); err != nil {
			return errors.Join(err, listener.Close())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	go Accept(listener, func(conn net.Conn) {
		// By read and write: splice would leave pipes in this program for a while, and tests
		// count its descriptors. How it ends is the client's business.
		_, _ = io.Copy(struct{ io.Writer }{conn}, conn)
	})
	go EchoPackets(packets)
	return func() { listener.Close(); packets.Close() }, nil
}
