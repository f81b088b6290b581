package gateway

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"aether/sandbox"

	"golang.org/x/net/dns/dnsmessage"
)

// asks is a name server and who asks it.
type asks struct {
	*testing.T
	server *NameServer
	addr   net.Addr
}

func newAsks(t *testing.T, admit func(ctx context.Context, name string, list []netip.Addr) ([]netip.Addr, error), allow ...string) *asks {
	t.Helper()
	packets, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	many := map[string][]netip.Addr{"a.example": addrs("93.184.0.1"), "b.example": addrs("93.184.0.2"), "six.example": addrs("2606:2800::1", "::ffff:93.184.0.4")}
	for i := range 100 {
		many["many.example"] = append(many["many.example"], netip.AddrFrom4([4]byte{93, 184, 1, byte(i)}))
	}
	s := NewNameServer(packets, NameServerOptions{Policy: policyOf(t, sandbox.Network{Allow: allow}), Way: &Way{Hosts: many}, Admit: admit, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &asks{t, s, packets.LocalAddr()}
}

func all(_ context.Context, _ string, list []netip.Addr) ([]netip.Addr, error) { return list, nil }

func question(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 9}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}}}
	text, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ask asks by a datagram.
func (a *asks) ask(name string, kind dnsmessage.Type) dnsmessage.Message {
	a.Helper()
	conn, err := net.Dial("udp4", a.addr.String())
	if err != nil {
		a.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		a.Fatal(err)
	}
	if _, err := conn.Write(question(a, name, kind)); err != nil {
		a.Fatal(err)
	}
	buf := make([]byte, 4<<10)
	n, err := conn.Read(buf)
	if err != nil {
		a.Fatal(err)
	}
	if n > 512 {
		a.Errorf("%s: an answer of %d bytes", name, n)
	}
	return unpacked(a, buf[:n])
}

func unpacked(t testing.TB, text []byte) (m dnsmessage.Message) {
	t.Helper()
	if err := m.Unpack(text); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestNameServer: allowed names have their addresses, of version 4, and no more than were
// admitted; others are not there.
func TestNameServer(t *testing.T) {
	var mu sync.Mutex
	var admitted []string
	a := newAsks(t, func(_ context.Context, name string, list []netip.Addr) ([]netip.Addr, error) {
		mu.Lock()
		defer mu.Unlock()
		admitted = append(admitted, fmt.Sprint(name, list))
		return list, nil
	}, "a.example", "six.example", "many.example")
	for name, want := range map[string]int{"a.example.": 1, "A.Example.": 1, "six.example.": 1, "many.example.": maxAddresses} {
		m := a.ask(name, dnsmessage.TypeA)
		if m.RCode != dnsmessage.RCodeSuccess || len(m.Answers) != want {
			t.Errorf("%s: %v", name, m)
		}
	}
	mu.Lock()
	if !slices.Contains(admitted, "a.example[93.184.0.1]") || !slices.Contains(admitted, "six.example[93.184.0.4]") {
		t.Errorf("admitted %q", admitted)
	}
	mu.Unlock()
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeAAAA, dnsmessage.TypeHTTPS, dnsmessage.TypeTXT} {
		if m := a.ask("a.example.", kind); m.RCode != dnsmessage.RCodeSuccess || len(m.Answers) != 0 {
			t.Errorf("%v: %v", kind, m)
		}
	}
	for name, kind := range map[string]dnsmessage.Type{"b.example.": dnsmessage.TypeA, "1.0.184.93.in-addr.arpa.": dnsmessage.TypePTR, "x y.example.": dnsmessage.TypeA} {
		if m := a.ask(name, kind); m.RCode != dnsmessage.RCodeNameError {
			t.Errorf("%s: %v", name, m)
		}
	}
	if err := a.server.Set(policyOf(t, sandbox.Network{Allow: []string{"b.example"}})); err != nil {
		t.Fatal(err)
	}
	if m := a.ask("a.example.", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeNameError {
		t.Errorf("after a change: %v", m)
	}
}

// TestNameServerAdmitsNothing: what the owner cannot admit is not told.
func TestNameServerAdmitsNothing(t *testing.T) {
	fails := newAsks(t, func(context.Context, string, []netip.Addr) ([]netip.Addr, error) { return nil, errors.New("no") }, "a.example")
	if m := fails.ask("a.example.", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeServerFailure {
		t.Errorf("%v", m)
	}
	none := newAsks(t, func(context.Context, string, []netip.Addr) ([]netip.Addr, error) { return nil, nil }, "a.example")
	if m := none.ask("a.example.", dnsmessage.TypeA); m.RCode != dnsmessage.RCodeSuccess || len(m.Answers) != 0 {
		t.Errorf("%v", m)
	}
}

// TestNameServerFlood: who asks more than is answered is not answered, and closing does not
// wait for the owner.
func TestNameServerFlood(t *testing.T) {
	waiting := make(chan struct{}, 1000)
	a := newAsks(t, func(ctx context.Context, _ string, _ []netip.Addr) ([]netip.Addr, error) {
		waiting <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}, "a.example")
	conn, err := net.Dial("udp4", a.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 4 * maxAsked {
		if _, err := conn.Write(question(t, "a.example.", dnsmessage.TypeA)); err != nil {
			t.Fatal(err)
		}
	}
	for range maxAsked {
		<-waiting
	}
	time.Sleep(50 * time.Millisecond)
	if len(waiting) > 0 {
		t.Errorf("%d more are being answered", len(waiting))
	}
}

// TestNameServerConnections: questions by TCP are answered too.
func TestNameServerConnections(t *testing.T) {
	a := newAsks(t, all, "a.example")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.server.Listen(l); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 3 {
		text := question(t, "a.example.", dnsmessage.TypeA)
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...)); err != nil {
			t.Fatal(err)
		}
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			t.Fatal(err)
		}
		reply := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, reply); err != nil {
			t.Fatal(err)
		}
		if m := unpacked(t, reply); len(m.Answers) != 1 {
			t.Errorf("%v", m)
		}
	}
}

// FuzzNameServer gives any bytes as a question: FuzzAnswer for real addresses.
func FuzzNameServer(f *testing.F) {
	f.Add(question(f, "a.example.", dnsmessage.TypeA))
	f.Add(question(f, "b.example.", dnsmessage.TypePTR))
	s := &NameServer{opts: NameServerOptions{Way: &Way{Hosts: hosts}, Admit: all, Logger: slog.New(slog.DiscardHandler)}, asked: newPace(1e9, 1e9), ctx: f.Context()}
	p := policyOf(f, sandbox.Network{Allow: []string{"a.example"}})
	s.policy.Store(&p)
	f.Fuzz(func(t *testing.T, text []byte) {
		reply := s.answer(text)
		if reply == nil {
			return
		}
		m := unpacked(t, reply)
		for _, a := range m.Answers {
			if name, err := sandbox.ParseHostName(a.Header.Name.String()); err != nil || name != "a.example" {
				t.Errorf("an answer about %q", a.Header.Name.String())
			}
		}
	})
}
