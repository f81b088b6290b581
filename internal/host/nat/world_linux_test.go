package nat

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"aether/internal/host/netdev"
	"aether/internal/host/netdev/netdevtest"
	"aether/sandbox"
)

const (
	publicHost  = "93.184.0.1"
	otherHost   = "93.184.0.2"
	privateHost = "10.99.0.1"
	metadata    = "169.254.169.254"
	hostPublic  = "93.185.0.1" // of the host itself
	port        = 7000
)

var special = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("198.18.0.0/15")}

// world is a host on the Internet, with a router.
type world struct {
	*testing.T
	router  *Router
	outside *netdevtest.Outside
	boxes   int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root has a router")
	}
	outside, err := netdevtest.NewOutside("93.184.0.0/16", "10.99.0.0/16", metadata+"/32")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(outside.Close)
	w := &world{T: t, outside: outside}
	for _, p := range []uint16{port, port + 1} {
		w.serve(outside.Do, p, publicHost, otherHost, privateHost, metadata)
		w.serve(netdevtest.Here, p, netdevtest.HostAddress)
	}
	w.router, err = Open(slog.Default(), netip.MustParseAddr(sandbox.Gateway), special)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.router.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// serve says what it hears at a port of some addresses.
func (w *world) serve(in func(func() error) error, port uint16, hosts ...string) {
	w.Helper()
	for _, host := range hosts {
		stop, err := netdevtest.Echo(in, fmt.Sprintf("%s:%d", host, port))
		if err != nil {
			w.Fatal(err)
		}
		w.Cleanup(stop)
	}
}

// box is a sandbox: a net namespace.
type box struct {
	*world
	namespace *netdev.Namespace
	port      *Port
	address   netip.Addr
}

// namespace is one of its own.
func (w *world) namespace() *netdev.Namespace {
	w.Helper()
	n, err := netdev.NewNamespace()
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { n.Close() })
	return n
}

func (w *world) join(rules Rules) *box {
	w.Helper()
	w.boxes++
	b := &box{world: w, namespace: w.namespace(), address: netip.AddrFrom4([4]byte{198, 18, 1, byte(w.boxes)})}
	tap := netdev.Tap{Name: "eth0", Address: b.address, Gateway: netip.MustParseAddr(sandbox.Gateway), Hardware: netdev.HardwareAddr{2, 0, 0, 0, 0, byte(w.boxes)},
		GatewayHardware: netdev.HardwareAddr{2, 1, 0, 0, 0, 1}}
	if rules.Connections == 0 {
		rules.Connections = 512
	}
	var err error
	if b.port, err = w.router.Join(b.namespace, tap, rules); err != nil {
		w.Fatal(err)
	}
	return b
}

// dial connects from inside.
func (b *box) dial(within time.Duration, network, host string, port uint16) (conn net.Conn, err error) {
	err = b.namespace.Do(func() (err error) {
		conn, err = net.DialTimeout(network, net.JoinHostPort(host, fmt.Sprint(port)), within)
		return err
	})
	return conn, err
}

// How long an answer is waited for, and none.
const (
	patience = time.Minute
	silence  = 300 * time.Millisecond
)

// sees says what becomes of a few words to a host.
func (b *box) sees(within time.Duration, network, host string, port uint16) string {
	b.Helper()
	conn, err := b.dial(within, network, host, port)
	if err != nil {
		return seen(err)
	}
	defer conn.Close()
	return said(conn, within)
}

func said(conn net.Conn, within time.Duration) string {
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return err.Error()
	}
	if _, err := conn.Write([]byte("hello")); err != nil {
		return seen(err)
	}
	buf := make([]byte, 16)
	n, err := conn.Read(buf)
	if err != nil {
		return seen(err)
	}
	return string(buf[:n])
}

func seen(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNABORTED), errors.Is(err, syscall.ECONNRESET):
		return "cut"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "silence"
	}
	return err.Error()
}

func (b *box) want(want, network, host string, port uint16) {
	b.Helper()
	within := patience
	if want == "silence" {
		within = silence
	}
	if got := b.sees(within, network, host, port); got != want {
		b.Errorf("%s to %s:%d: %q, want %q", network, host, port, got, want)
	}
}

func one(addr string) netip.Prefix { return single(netip.MustParseAddr(addr)) }
