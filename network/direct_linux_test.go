package network_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"aether/internal/host/netdev/netdevtest"
	"aether/network"
	"aether/sandbox"
)

// TestNatNames: what is allowed by its name is reached at the name's address once it was
// asked for, at the ports of the entry, and nothing else.
func TestNatNames(t *testing.T) {
	if !netdevtest.Again(t, hosts) {
		return
	}
	internet(t)
	s := service(t)
	b := enter(t, s, natted(fmt.Sprintf("a.example:%d", at), "*.wild.example", "private.example", "meta.example", "both.example", "six.example"))
	b.want(false, someHost, at)
	b.wantName(someHost, "a.example")
	b.wantName(someHost, "A.EXAMPLE")
	b.want(true, someHost, at)
	b.want(false, wildHost, at)
	if got := b.resolve("tcp", "8.8.8.8", "sub.wild.example"); got != wildHost {
		t.Errorf("by TCP, and whoever is asked: %q", got)
	}
	b.want(true, wildHost, at+1)
	for _, name := range []string{"b.example", "wild.example", "nosuch.wild.example", "private.example", "meta.example", "six.example"} {
		b.wantName("none", name)
	}
	b.wantName(someHost, "both.example")
	for _, host := range []string{otherHost, privately, metadata, sandbox.Gateway} {
		b.want(false, host, at)
	}
	list, _, err := b.attached.Decisions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	denied := map[string]bool{}
	for _, d := range list {
		denied[d.Name] = denied[d.Name] || d.Verdict == sandbox.VerdictDenied
	}
	if !denied["b.example"] || !denied["private.example"] || denied["a.example"] {
		t.Errorf("decisions: %+v", list)
	}
	if other := enter(t, s, natted()); other.resolve("udp", sandbox.Gateway, "a.example") != "none" {
		t.Error("another sandbox has its names")
	}
}

// TestNatChange: a change holds at once for names, for what is new and for what is open,
// and leaves what it allows.
func TestNatChange(t *testing.T) {
	if !netdevtest.Again(t, hosts) {
		return
	}
	internet(t)
	b := enter(t, service(t), natted("a.example", "b.example"))
	b.wantName(someHost, "a.example")
	b.wantName(otherHost, "b.example")
	stays, goes := b.hold(someHost), b.hold(otherHost)
	if err := b.attached.SetNetwork(t.Context(), natted("a.example", "*.wild.example")); err != nil {
		t.Fatal(err)
	}
	if err := hears(stays); err != nil {
		t.Errorf("what is allowed was cut: %v", err)
	}
	if err := hears(goes); !errors.Is(err, syscall.ECONNABORTED) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("what is not allowed was not cut: %v", err)
	}
	b.want(false, otherHost, at)
	b.want(true, someHost, at)
	b.wantName("none", "b.example")
	b.wantName(wildHost, "sub.wild.example")
	b.want(true, wildHost, at)
	for class, n := range map[sandbox.Class]sandbox.Network{
		sandbox.Unsupported: {Mode: sandbox.EgressNetwork},
		sandbox.Invalid:     {Mode: sandbox.NatNetwork, Proxy: "http://192.0.2.1:1"},
	} {
		if err := b.attached.SetNetwork(t.Context(), n); sandbox.ClassOf(err) != class {
			t.Errorf("%+v: %v", n, err)
		}
	}
}

func (b *inside) hold(host string) net.Conn {
	b.Helper()
	conn, err := b.tryHold(host)
	if err != nil {
		b.Fatal(err)
	}
	return conn
}

func (b *inside) tryHold(host string) (net.Conn, error) {
	conn, err := b.dial(b.Context(), "tcp", net.JoinHostPort(host, strconv.Itoa(at)))
	if err != nil {
		return nil, err
	}
	b.Cleanup(func() { conn.Close() })
	return conn, hears(conn)
}

// TestNatForgets: an address is reached for a while after the answer that gave it, and as
// long as there is a connection to it.
func TestNatForgets(t *testing.T) {
	if !netdevtest.Again(t, hosts) {
		return
	}
	internet(t)
	network.KeepAnswers(500 * time.Millisecond)
	b := enter(t, service(t), natted("a.example", "b.example"))
	b.wantName(otherHost, "b.example")
	held := b.holdAnswered(someHost, "a.example")
	b.awaitForgotten(otherHost)
	b.want(true, someHost, at)
	if err := hears(held); err != nil {
		t.Errorf("a connection was cut: %v", err)
	}
	b.holdAnswered(otherHost, "b.example")
}

// awaitForgotten wants an address not to be reached any more when its time is over and
// somebody has looked, which a slow host does late. Whoever tries has a connection, with
// which it is kept: the next who tries gives that the time to end, and to be looked for.
func (b *inside) awaitForgotten(host string) {
	b.Helper()
	for end := time.Now().Add(patience); ; {
		time.Sleep(1500 * time.Millisecond)
		conn, err := b.dial(b.Context(), "tcp", net.JoinHostPort(host, strconv.Itoa(at)))
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err != nil {
			b.Fatal(err)
		}
		conn.Close()
		if time.Now().After(end) {
			b.Fatalf("%s is reached long after it was answered", host)
		}
	}
}

// holdAnswered asks for a name and holds a connection to its address, of which an answer is
// kept for so short a time that a slow host may have to ask again.
func (b *inside) holdAnswered(host, name string) net.Conn {
	b.Helper()
	for end := time.Now().Add(patience); ; {
		b.wantName(host, name)
		conn, err := b.tryHold(host)
		if err == nil {
			return conn
		}
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(end) {
			b.Fatal(err)
		}
	}
}

// TestNatNameServerIsStartedAgain: names are answered after the gateways' program has
// died, and connections do not notice.
func TestNatNameServerIsStartedAgain(t *testing.T) {
	if !netdevtest.Again(t, hosts) {
		return
	}
	internet(t)
	b := enter(t, service(t), natted("a.example"))
	b.wantName(someHost, "a.example")
	held := b.hold(someHost)
	processes, _ := holds(t)
	pid, err := strconv.Atoi(processes[0])
	if err != nil || len(processes) != 1 {
		t.Fatal(processes, err)
	}
	program, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := hears(held); err != nil {
		t.Error(err)
	}
	b.wantName(someHost, "a.example")
}
