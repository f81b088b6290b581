package network_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/internal/host/netdev"
	"aether/internal/host/netdev/netdevtest"
	"aether/network"
	"aether/sandbox"

	"golang.org/x/net/dns/dnsmessage"
)

// hosts are names of the Internet of these tests.
var hosts = map[string]string{"/etc/hosts": `93.184.0.1 a.example
93.184.0.2 b.example
93.184.0.3 sub.wild.example
10.99.0.1 private.example
169.254.169.254 meta.example
10.99.0.1 both.example
93.184.0.1 both.example
2606:2800::1 six.example
`, "/etc/resolv.conf": ""}

const (
	someHost  = "93.184.0.1"
	otherHost = "93.184.0.2"
	wildHost  = "93.184.0.3"
	privately = "10.99.0.1"
	metadata  = "169.254.169.254"
	at        = 7000

	// patience is how long what must happen is waited for, also on a host that is slow: who
	// waits for it that long has found a defect.
	patience = time.Minute

	// answerTime is how long one answer about a name is waited for.
	answerTime = 10 * time.Second
)

// internet is what is around the sandboxes of a test, which runs again for it.
func internet(t *testing.T) {
	t.Helper()
	outside, err := netdevtest.NewOutside("93.184.0.0/16", "10.99.0.0/16", metadata+"/32")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(outside.Close)
	for _, host := range []string{someHost, otherHost, wildHost, privately, metadata} {
		for _, port := range []int{at, at + 1} {
			stop, err := netdevtest.Echo(outside.Do, fmt.Sprintf("%s:%d", host, port))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(stop)
		}
	}
}

// inside is a sandbox on its network.
type inside struct {
	*testing.T
	namespace *netdev.Namespace
	attached  *network.Attached
	pid       int
}

func natted(allow ...string) sandbox.Network {
	return sandbox.Network{Mode: sandbox.NatNetwork, Allow: allow}
}

func service(t *testing.T) *network.Service {
	t.Helper()
	s := network.New(network.Options{})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func enter(t *testing.T, s *network.Service, n sandbox.Network) *inside {
	t.Helper()
	b := &inside{T: t, pid: elsewhere(t)}
	var err error
	if b.namespace, err = netdev.NamespaceOf(b.pid, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.namespace.Close() })
	b.attached, err = s.Connect(t.Context(), n, network.Place{PID: b.pid, Still: func() error { return nil }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *inside) dial(ctx context.Context, kind, address string) (conn net.Conn, err error) {
	err = b.namespace.Do(func() (err error) {
		conn, err = (&net.Dialer{Timeout: patience}).DialContext(ctx, kind, address)
		return err
	})
	return conn, err
}

// resolve asks a name server, by UDP or TCP, past whatever files of this host say. As
// programs do, it asks again if no answer comes or the server says that it has failed, which
// it does when the host stands still while it is asked.
func (b *inside) resolve(kind, server, name string) string {
	for end := time.Now().Add(patience); ; {
		got := b.ask(kind, server, name)
		if again := got == dnsmessage.RCodeServerFailure.String() || strings.Contains(got, os.ErrDeadlineExceeded.Error()); !again || time.Now().After(end) {
			return got
		}
	}
}

func (b *inside) ask(kind, server, name string) string {
	question := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name + "."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	text, err := question.Pack()
	if err != nil {
		b.Fatal(err)
	}
	conn, err := b.dial(b.Context(), kind, server+":53")
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	head := 0
	if kind == "tcp" {
		head = 2
		text = append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...)
	}
	if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err.Error()
	}
	if _, err := conn.Write(text); err != nil {
		return err.Error()
	}
	answer := make([]byte, 4<<10)
	n, err := conn.Read(answer)
	var m dnsmessage.Message
	if err == nil {
		err = m.Unpack(answer[head:n])
	}
	if err != nil {
		return err.Error()
	}
	return said(m)
}

func said(m dnsmessage.Message) string {
	var list []string
	for _, a := range m.Answers {
		list = append(list, netip.AddrFrom4(a.Body.(*dnsmessage.AResource).A).String())
	}
	switch {
	case m.RCode == dnsmessage.RCodeNameError || m.RCode == dnsmessage.RCodeSuccess && len(list) == 0:
		return "none"
	case m.RCode != dnsmessage.RCodeSuccess:
		return m.RCode.String()
	}
	return strings.Join(list, " ")
}

func (b *inside) wantName(want, name string) {
	b.Helper()
	if got := b.resolve("udp", sandbox.Gateway, name); got != want {
		b.Errorf("%s is at %q, want %q", name, got, want)
	}
}

// want wants that what is said to a host is said by it, or that it is refused.
func (b *inside) want(yes bool, host string, port int) {
	b.Helper()
	conn, err := b.dial(b.Context(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err == nil {
		defer conn.Close()
		err = hears(conn)
	}
	if yes && err != nil || !yes && !errors.Is(err, syscall.ECONNREFUSED) {
		b.Errorf("%s:%d: %v", host, port, err)
	}
}

func hears(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("hello")); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 5))
	return err
}
