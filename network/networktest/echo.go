package networktest

import (
	"io"
	"net"
	"testing"

	"aether/internal/host/netdev/netdevtest"
)

// Echo is a server at an address of this host that says what it hears.
func Echo(t testing.TB, host string) (address string) {
	t.Helper()
	return netdevtest.Serve(t, net.JoinHostPort(host, "0"), func(conn net.Conn) {
		_, _ = io.Copy(conn, conn) // how it ends is the sandbox's business
	}).String()
}

// EchoDatagrams is one for datagrams.
func EchoDatagrams(t testing.TB, host string) (address string) {
	t.Helper()
	packets, err := net.ListenPacket("udp4", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { packets.Close() })
	go netdevtest.EchoPackets(packets)
	return packets.LocalAddr().String()
}
