package checkpoint

import (
	"net"
	"net/netip"
	"os"
	"testing"
)

// TestTCPSocketsOfOurOwn finds both ends of a connection of this program's, of which one
// is of version 6.
func TestTCPSocketsOfOurOwn(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).AddrPort().Port()
	conn, err := net.Dial("tcp4", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	found, err := tcpSockets(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	end := func(a net.Addr) netip.AddrPort {
		full := a.(*net.TCPAddr).AddrPort()
		return netip.AddrPortFrom(full.Addr().Unmap(), full.Port())
	}
	there := found[tcpEnds{end(conn.LocalAddr()), end(conn.RemoteAddr())}]
	back := found[tcpEnds{end(accepted.LocalAddr()), end(accepted.RemoteAddr())}]
	if there == 0 || back == 0 || there == back {
		t.Errorf("the ends are %d and %d", there, back)
	}
}

func TestParseTCPSocketsRefuses(t *testing.T) {
	const line = "   0: 0100007F:1F90 0100007F:B2C4 01 00000000:00000000 00:00000000 00000000  1000        0 4321 1 0\n"
	found := map[tcpEnds]uint64{}
	if err := parseTCPSockets("sl local\n"+line, found); err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	for ends, inode := range found {
		if ends.local.String() != "127.0.0.1:8080" || ends.remote.String() != "127.0.0.1:45764" || inode != 4321 {
			t.Errorf("%v: %d", ends, inode)
		}
	}
	for _, bad := range []string{"0: 0100007F:1F90\n", "0: 01007F:1F90 0:0 01 0 0 0 0 0 1\n", "0: 0100007F:1F90 0100007F:XX 01 0 0 0 0 0 1\n"} {
		if err := parseTCPSockets("\n"+bad, found); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
