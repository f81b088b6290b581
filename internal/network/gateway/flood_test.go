package gateway

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"aether/internal/host/netdev/netdevtest"
	"aether/sandbox"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// flooded is what a flood may make the process grow by: a part of it is the flooding
// sandbox's own stack, which is in this process too.
const flooded = 256 << 20

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// flood has one sandbox do its worst, and looks at this process and another sandbox.
func flood(t *testing.T, worst func(b *box, port uint16)) {
	t.Helper()
	port := serve(t, "0.0.0.0:0")
	other, b := newBox(t, "a.example"), newBox(t, "a.example", "*.wild.example", "public")
	before := inUse()
	worst(b, port)
	if grown := inUse() - before; grown > flooded {
		t.Errorf("%d MiB more are in use", grown>>20)
	} else {
		t.Logf("%d MiB more are in use", grown>>20)
	}
	conn, err := other.reach("a.example", port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if said, err := greeting(conn); err != nil {
		t.Errorf("another sandbox: %q, %v", said, err)
	}
}

// syn is the beginning of a connection.
func syn(to netip.Addr, from, port uint16) []byte {
	frame := make([]byte, etherSize+header.IPv4MinimumSize+header.TCPMinimumSize)
	copy(frame, tap.GatewayHardware[:])
	copy(frame[6:], tap.Hardware[:])
	binary.BigEndian.PutUint16(frame[12:], uint16(header.IPv4ProtocolNumber))
	ip := header.IPv4(frame[etherSize:])
	ip.Encode(&header.IPv4Fields{TotalLength: uint16(len(ip)), TTL: 64, Protocol: uint8(header.TCPProtocolNumber),
		SrcAddr: tcpip.AddrFrom4(tap.Address.As4()), DstAddr: tcpip.AddrFrom4(to.As4())})
	ip.SetChecksum(^ip.CalculateChecksum())
	header.TCP(ip.Payload()).Encode(&header.TCPFields{SrcPort: from, DstPort: port, SeqNum: 1, DataOffset: header.TCPMinimumSize, Flags: header.TCPFlagSyn, WindowSize: 1})
	return frame
}

// TestFloodOfSYNs: connections that are begun and never made. The gateway would wait for
// them for longer than a slow host takes to close it.
func TestFloodOfSYNs(t *testing.T) {
	before := handshakeTime
	t.Cleanup(func() { handshakeTime = before })
	handshakeTime = 2 * patience
	flood(t, func(b *box, port uint16) {
		addr, err := b.resolve("a.example")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 30_000 {
			to := addr
			if i%3 == 0 {
				to = netip.AddrFrom4([4]byte{93, 184, byte(i >> 8), byte(i)}) // nobody
			}
			b.wire.out <- syn(to, uint16(1024+i), port)
		}
		begun := time.Now()
		if err := b.gateway.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > patience {
			t.Errorf("a gateway with half-open connections took %v to close", took)
		}
	})
}

// TestFloodOfConnections: as many as there can be, none of which says anything.
func TestFloodOfConnections(t *testing.T) {
	flood(t, func(b *box, port uint16) {
		addr, err := b.resolve("a.example")
		if err != nil {
			t.Fatal(err)
		}
		made := 0
		for range 2 * defaultConnections {
			if conn, err := b.dial(addr, port); err == nil {
				defer conn.Close()
				made++
			}
		}
		if made > defaultConnections || made < defaultConnections/2 {
			t.Errorf("%d connections were made", made)
		}
	})
}

// TestFloodOfTinyWindows: hosts that send without end to connections that take nothing.
func TestFloodOfTinyWindows(t *testing.T) {
	port := uint16(netdevtest.Serve(t, "0.0.0.0:0", func(conn net.Conn) {
		for block := make([]byte, 64<<10); ; {
			if _, err := conn.Write(block); err != nil {
				return
			}
		}
	}).Port)
	flood(t, func(b *box, _ uint16) {
		small := tcpip.TCPReceiveBufferSizeRangeOption{Min: 1, Default: 4 << 10, Max: 4 << 10}
		if err := b.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &small); err != nil {
			t.Fatal(err)
		}
		addr, err := b.resolve("a.example")
		if err != nil {
			t.Fatal(err)
		}
		for range 400 {
			if conn, err := b.dial(addr, port); err == nil {
				defer conn.Close()
			}
		}
		time.Sleep(time.Second)
	})
}

// TestFloodOfNames: more of them than there are addresses, and questions that are none.
func TestFloodOfNames(t *testing.T) {
	flood(t, func(b *box, _ uint16) {
		for i := range 3 * maxNames {
			b.gateway.names.address(fmt.Sprintf("n%d.wild.example", i))
		}
		if n := b.gateway.names.recent.Len(); n > maxNames || len(b.gateway.names.byAddr) > maxNames {
			t.Errorf("%d names", n)
		}
		server := full(netip.MustParseAddr("8.8.8.8"), dnsPort)
		for i := range 300 {
			conn, err := gonet.DialUDP(b.stack, nil, &server, ipv4.ProtocolNumber)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = conn.Write(make([]byte, 1+i*4))
		}
		for range 100 {
			conn, err := gonet.DialTCP(b.stack, server, ipv4.ProtocolNumber)
			if err != nil {
				continue
			}
			defer conn.Close()
			_, _ = conn.Write(append([]byte{0xff, 0xff}, make([]byte, 32<<10)...))
		}
	})
}

// TestRateOfAll: all connections of a sandbox share its rate, and Set changes it.
func TestRateOfAll(t *testing.T) {
	const rate = 64 << 10
	port := uint16(netdevtest.Serve(t, "0.0.0.0:0", func(conn net.Conn) { _, _ = io.Copy(conn, zeroes{}) }).Port)
	n := sandbox.Network{Allow: []string{"a.example"}, Rate: rate}
	b := newBoxOf(t, n, &Way{Hosts: hosts})
	var got atomic.Int64
	begun := time.Now()
	for range 8 {
		conn, err := b.reach("a.example", port)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			buf := make([]byte, 32<<10)
			for {
				n, err := conn.Read(buf)
				got.Add(int64(n))
				if err != nil {
					return
				}
			}
		}()
	}
	time.Sleep(2 * time.Second)
	for end := time.Now().Add(patience); got.Load() < rate && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	came := got.Load()
	took := time.Since(begun)
	most := rate + int64(took.Seconds()*rate) + 8*rate/8 // a burst, and a piece of each
	if came > most || came < rate {
		t.Errorf("%d bytes came in %v, of at most %d", came, took, most)
	}
	n.Rate = 0
	if err := b.gateway.Set(policyOf(t, n)); err != nil {
		t.Fatal(err)
	}
	before := got.Load()
	for end := time.Now().Add(patience); got.Load() < before+50*rate; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes came without a rate", got.Load()-before)
		}
	}
}

type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) { return len(b), nil }
