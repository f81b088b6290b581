package nat

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"aether/internal/host/netdev/netdevtest"
	"aether/sandbox"

	"github.com/vishvananda/netlink"

	"golang.org/x/sys/unix"
)

// TestMatches: what a match allows is reached, at its ports and by its protocol, and
// nothing else is.
func TestMatches(t *testing.T) {
	w := newWorld(t)
	b := w.join(Rules{Matches: []Match{
		{Deny: true, Prefix: one(otherHost)},
		{Prefix: netip.MustParsePrefix("93.184.0.0/30"), First: port, Last: port},
		{UDP: true, Addresses: []netip.Addr{netip.MustParseAddr(publicHost)}},
	}})
	b.want("hello", "tcp", publicHost, port)
	b.want("hello", "udp", publicHost, port)
	b.want("refused", "tcp", publicHost, port+1)
	b.want("refused", "tcp", otherHost, port)
	b.want("silence", "udp", otherHost, port)
	for _, host := range []string{privateHost, metadata, netdevtest.HostAddress, sandbox.Gateway, "198.18.1.77"} {
		b.want("refused", "tcp", host, port)
	}
	if err := b.port.Change([]Change{{Match: 2, Add: []netip.Addr{netip.MustParseAddr(otherHost)}, Remove: []netip.Addr{netip.MustParseAddr(publicHost)}}}); err != nil {
		t.Fatal(err)
	}
	b.want("hello", "udp", otherHost, port+1)
	b.want("silence", "udp", publicHost, port)
}

// TestPublic: everything public is reached, and neither special addresses nor those of the
// host itself, whichever they are, unless a match says that they may be.
func TestPublic(t *testing.T) {
	w := newWorld(t)
	if err := netdevtest.Find(hostPublic + "/32"); err != nil {
		t.Fatal(err)
	}
	w.serve(netdevtest.Here, port, hostPublic)
	b := w.join(Rules{Public: true})
	b.want("hello", "tcp", publicHost, port)
	b.want("hello", "tcp", otherHost, port+1)
	b.want("silence", "udp", otherHost, port)
	b.want("silence", "tcp", hostPublic, port)
	for _, host := range []string{privateHost, metadata, netdevtest.HostAddress, w.router.uplink.at(hostPlace).String(), w.router.uplink.at(localPlace).String()} {
		b.want("refused", "tcp", host, port)
	}
	named := w.join(Rules{Matches: []Match{{Prefix: one(hostPublic), Local: true}, {Prefix: one(netdevtest.HostAddress), Local: true}, {Prefix: one(privateHost), Local: true}}})
	for _, host := range []string{hostPublic, netdevtest.HostAddress, privateHost} {
		named.want("hello", "tcp", host, port)
	}
}

// TestQUIC: it has no names that can be seen.
func TestQUIC(t *testing.T) {
	w := newWorld(t)
	w.serve(w.outside.Do, quic, publicHost)
	b := w.join(Rules{Matches: []Match{{UDP: true, Prefix: one(publicHost)}, {Prefix: one(publicHost)}}})
	b.want("silence", "udp", publicHost, quic)
	b.want("hello", "tcp", publicHost, quic)
}

// TestTwoSandboxes reach each other neither by their addresses nor as another.
func TestTwoSandboxes(t *testing.T) {
	w := newWorld(t)
	everything := Rules{Matches: []Match{{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Local: true}, {UDP: true, Prefix: netip.MustParsePrefix("0.0.0.0/0"), Local: true}}}
	one, other := w.join(everything), w.join(everything)
	w.serve(other.namespace.Do, port, other.address.String())
	one.want("refused", "tcp", other.address.String(), port)
	one.want("silence", "udp", other.address.String(), port)
	one.want("hello", "tcp", publicHost, port)
	one.take(other.address)
	if got := one.sees(silence, "tcp", publicHost, port); got == "hello" {
		t.Error("it was reached with another's address")
	}
	other.want("hello", "tcp", publicHost, port)
}

// take has a sandbox have another address, as nobody inside may.
func (b *box) take(a netip.Addr) {
	b.Helper()
	err := b.namespace.Do(func() error {
		links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer links.Close()
		link, err := links.LinkByName("eth0")
		if err != nil {
			return err
		}
		if err := links.AddrDel(link, &netlink.Addr{IPNet: ipNet(single(b.address))}); err != nil {
			return err
		}
		if err := plugged(links, link, single(a)); err != nil {
			return err
		}
		gateway := ipNet(single(netip.MustParseAddr(sandbox.Gateway)))
		if err := links.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: gateway}); err != nil {
			return err
		}
		return links.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.IP})
	})
	if err != nil {
		b.Fatal(err)
	}
}

// TestCut: rules that change hold for what is open too, and what they allow stays.
func TestCut(t *testing.T) {
	w := newWorld(t)
	both := Rules{Matches: []Match{{Prefix: one(publicHost)}, {Prefix: one(otherHost)}}, Connections: 512}
	b := w.join(both)
	stays, goes := b.hold(publicHost), b.hold(otherHost)
	both.Matches = both.Matches[:1]
	if err := b.port.Set(both); err != nil {
		t.Fatal(err)
	}
	if got := said(goes, patience); got != "hello" {
		t.Errorf("before the cut: %q", got)
	}
	flows, err := b.port.Flows()
	if err != nil || len(flows) != 2 {
		t.Fatalf("%v, %v", flows, err)
	}
	if err := b.port.Cut(func(f Flow) bool { return f == Flow{To: netip.MustParseAddr(publicHost), Port: port} }); err != nil {
		t.Fatal(err)
	}
	if got := said(goes, patience); got != "cut" {
		t.Errorf("what is not allowed: %q", got)
	}
	if got := said(stays, patience); got != "hello" {
		t.Errorf("what is allowed: %q", got)
	}
	b.want("refused", "tcp", otherHost, port)
	b.want("hello", "tcp", publicHost, port)
}

func (b *box) hold(host string) net.Conn {
	b.Helper()
	conn, err := b.dial(patience, "tcp", host, port)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	if got := said(conn, patience); got != "hello" {
		b.Fatalf("%s: %q", host, got)
	}
	return conn
}

// TestBounds: no more connections, and no more bytes, than the rules say.
func TestBounds(t *testing.T) {
	w := newWorld(t)
	few := w.join(Rules{Matches: []Match{{Prefix: one(publicHost)}}, Connections: 2})
	first := few.hold(publicHost)
	few.hold(publicHost)
	few.want("refused", "tcp", publicHost, port)
	first.Close()
	for end := time.Now().Add(patience); few.sees(patience, "tcp", publicHost, port) != "hello"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the place of a connection that has ended is not free")
		}
	}
	const rate = 1 << 20
	slow := w.join(Rules{Matches: []Match{{Prefix: one(publicHost)}}, Connections: 2, Rate: rate})
	conn := slow.hold(publicHost)
	began := time.Now()
	passed := 0
	buf := make([]byte, 32<<10)
	for passed < 2*rate {
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(buf); err != nil {
			t.Fatal(err)
		}
		for got := 0; got < len(buf); {
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
		passed += 2 * len(buf)
	}
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("%d bytes passed in %v", passed, took)
	}
}

// TestHostThatDoesNotForward is asked for it, and not changed.
func TestHostThatDoesNotForward(t *testing.T) {
	newWorld(t)
	if err := netdevtest.Forward(false); err != nil {
		t.Fatal(err)
	}
	r, err := Open(slog.Default(), netip.MustParseAddr(sandbox.Gateway), special)
	if sandbox.ClassOf(err) != sandbox.Unavailable || r != nil {
		t.Errorf("%v, %v", r, err)
	}
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Remedy == "" {
		t.Errorf("no remedy: %v", err)
	}
	text, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + netdevtest.HostDevice + "/forwarding")
	if err != nil || string(text) != "0\n" {
		t.Errorf("the host's setting is %q, %v", text, err)
	}
}

// TestFirstDatagram: what is sent to a sandbox right after it has joined arrives.
func TestFirstDatagram(t *testing.T) {
	w := newWorld(t)
	for range 40 {
		b := w.join(Rules{Public: true})
		var to, from net.PacketConn
		err := errors.Join(b.namespace.Do(func() (err error) {
			to, err = net.ListenPacket("udp4", ":9")
			return err
		}), w.router.namespace.Do(func() (err error) {
			from, err = net.ListenPacket("udp4", sandbox.Gateway+":0")
			return err
		}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = from.WriteTo([]byte("hello"), &net.UDPAddr{IP: b.address.AsSlice(), Port: 9})
		err = errors.Join(err, to.SetReadDeadline(time.Now().Add(patience)))
		if _, _, failed := to.ReadFrom(make([]byte, 8)); err != nil || failed != nil {
			t.Errorf("%v: %v, %v", b.address, err, failed)
		}
		if err := errors.Join(to.Close(), from.Close(), b.port.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
