package netdevtest

import (
	"net"
	"testing"
)

// Serve answers whoever connects to an address until the test ends. A connection is closed
// when its answer returns.
func Serve(t testing.TB, address string, answer func(net.Conn)) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go Accept(l, answer)
	return l.Addr().(*net.TCPAddr)
}

// Accept hands each connection to answer, and closes it afterwards, until the listener is
// closed.
func Accept(l net.Listener, answer func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			answer(conn)
		}()
	}
}

// EchoPackets says what it hears until the socket is closed.
func EchoPackets(packets net.PacketConn) {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := packets.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = packets.WriteTo(buf[:n], from)
	}
}
