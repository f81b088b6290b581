package gateway

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"aether/internal/host/netdev"
	"aether/internal/host/netdev/netdevtest"
	"aether/network/policy"
	"aether/sandbox"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

// patience is how long what must happen is waited for, also on a host that is slow: who
// waits for it that long has found a defect.
const patience = time.Minute

// wire is one end of a cable.
type wire struct {
	in, out chan []byte
	closed  chan struct{}
	once    *sync.Once
}

func cable() (a, b *wire) {
	x, y, closed, once := make(chan []byte, 256), make(chan []byte, 256), make(chan struct{}), new(sync.Once)
	return &wire{x, y, closed, once}, &wire{y, x, closed, once}
}

func (w *wire) Read(take func(frame []byte)) error {
	for {
		select {
		case frame := <-w.in:
			take(frame)
		case <-w.closed:
			return os.ErrClosed
		}
	}
}

func (w *wire) Write(_ netdev.Checksum, pieces [][]byte) error {
	select {
	case w.out <- slices.Concat(pieces...):
	case <-w.closed:
	default: // full: dropped
	}
	return nil
}

func (w *wire) Close() error { w.once.Do(func() { close(w.closed) }); return nil }

var tap = netdev.Tap{Address: netip.MustParseAddr("198.18.0.7"), Gateway: netip.MustParseAddr("198.18.0.1"),
	Hardware: [6]byte{2, 0, 0, 0, 0, 7}, GatewayHardware: [6]byte{2, 0, 0, 0, 0, 1}, MTU: 1500}

// box is a sandbox on its network: its kernel is a stack of this test's.
type box struct {
	*testing.T
	gateway *Gateway
	stack   *stack.Stack
	wire    *wire
	mu      sync.Mutex
	told    []sandbox.NetworkDecision
}

// hosts are the names that exist.
var hosts = map[string][]netip.Addr{
	"a.example":        addrs("93.184.0.1"),
	"b.example":        addrs("93.184.0.2"),
	"sub.wild.example": addrs("93.184.0.3"),
	"private.example":  addrs("10.99.0.1"),
	"meta.example":     addrs("169.254.169.254"),
	"local.example":    addrs("127.0.0.1"),
	"both.example":     addrs("10.99.0.1", "93.184.0.1"),
	"six.example":      addrs("2606:2800::1"),
	"mapped.example":   addrs("::ffff:169.254.169.254"),
}

func addrs(list ...string) (all []netip.Addr) {
	for _, text := range list {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func compiled(t testing.TB, allow, deny []string) policy.Policy {
	t.Helper()
	return policyOf(t, sandbox.Network{Allow: allow, Deny: deny})
}

// secretValues are the secrets that rules can name.
var secretValues = map[string]string{"TOKEN": "s3cr3t-value", "PROXY": "ann:s3cr3t-word"}

func policyOf(t testing.TB, n sandbox.Network) policy.Policy {
	t.Helper()
	n.Mode = sandbox.EgressNetwork
	if err := (sandbox.Spec{Network: n}).Validate(); err != nil {
		t.Fatal(err)
	}
	p, err := policy.Compile(t.Context(), n, nil, func(name string) (string, []string, error) { return secretValues[name], nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newBox(t *testing.T, allow ...string) *box {
	t.Helper()
	return newBoxOf(t, sandbox.Network{Allow: allow}, &Way{Hosts: hosts})
}

func newBoxOf(t *testing.T, n sandbox.Network, way *Way) *box {
	t.Helper()
	theirs, ours := cable()
	b := &box{T: t, wire: theirs}
	g, err := New(ours, Options{Tap: tap, Policy: policyOf(t, n), Key: make([]byte, 32), Way: way, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Decided: func(d sandbox.NetworkDecision) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.told = append(b.told, d)
		}})
	if err != nil {
		t.Fatal(err)
	}
	b.gateway = g
	b.boot(theirs)
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		b.stack.Close()
	})
	return b
}

// boot makes the sandbox's side: the same link, seen from there.
func (b *box) boot(device Device) {
	b.stack = stack.New(stack.Options{NetworkProtocols: []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol}})
	l := &insideLink{link{device: device, dropped: &b.gateway.dropped, ended: func(error) {},
		tap: netdev.Tap{Hardware: tap.GatewayHardware, GatewayHardware: tap.Hardware, MTU: tap.MTU}}}
	check := func(err tcpip.Error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	check(b.stack.CreateNIC(nic, l))
	check(b.stack.AddProtocolAddress(nic, tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddrFrom4(tap.Address.As4()).WithPrefix()}, stack.AddressProperties{}))
	all, err := tcpip.NewSubnet(tcpip.AddrFrom4([4]byte{}), tcpip.MaskFromBytes(make([]byte, 4)))
	if err != nil {
		b.Fatal(err)
	}
	b.stack.SetRouteTable([]tcpip.Route{{Destination: all, NIC: nic}})
}

// insideLink takes all packets of version 4.
type insideLink struct{ link }

func (l *insideLink) Attach(d stack.NetworkDispatcher) {
	l.dispatcher = d
	if d != nil {
		l.reading.Go(func() { _ = l.device.Read(l.deliver) }) // it ends when the wire is closed
	}
}

func full(addr netip.Addr, port uint16) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFrom4(addr.As4()), Port: port}
}

func (b *box) dial(addr netip.Addr, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	return gonet.DialContextTCP(ctx, b.stack, full(addr, port), ipv4.ProtocolNumber)
}

// resolve asks the gateway as programs do.
func (b *box) resolve(name string) (netip.Addr, error) {
	r := &net.Resolver{PreferGo: true, Dial: func(_ context.Context, network, _ string) (net.Conn, error) {
		server := full(netip.MustParseAddr("8.8.8.8"), dnsPort) // any server is the gateway
		if network == "udp" {
			return gonet.DialUDP(b.stack, nil, &server, ipv4.ProtocolNumber)
		}
		return gonet.DialTCP(b.stack, server, ipv4.ProtocolNumber)
	}}
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	list, err := r.LookupNetIP(ctx, "ip4", name+".")
	if err != nil {
		return netip.Addr{}, err
	}
	return list[0].Unmap(), nil
}

// reach connects to a name.
func (b *box) reach(name string, port uint16) (net.Conn, error) {
	addr, err := b.resolve(name)
	if err != nil {
		return nil, err
	}
	return b.dial(addr, port)
}

// serve has a host of the Internet say hello and echo, and gives its port.
func serve(t *testing.T, address string) uint16 {
	t.Helper()
	return uint16(netdevtest.Serve(t, address, func(conn net.Conn) {
		fmt.Fprintf(conn, "hello from %s\n", conn.LocalAddr().(*net.TCPAddr).IP)
		_, _ = io.Copy(conn, conn)
	}).Port)
}

// greeting is what a host says first.
func greeting(conn net.Conn) (string, error) {
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	buf := make([]byte, 100)
	n, err := conn.Read(buf)
	return string(buf[:n]), err
}

// decision waits for one.
func (b *box) decision(is func(sandbox.NetworkDecision) bool) {
	b.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		b.mu.Lock()
		found := slices.ContainsFunc(b.told, is)
		b.mu.Unlock()
		if found {
			return
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Errorf("no such decision among %+v", b.told)
}
