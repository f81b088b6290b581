package gateway

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"aether/sandbox"
)

// relay is a proxy of SOCKS5 or HTTP that takes all names for this host's.
type relay struct {
	*testing.T
	port  uint16
	mu    sync.Mutex
	asked []string
}

func newRelay(t *testing.T, serve func(*relay, net.Conn) (target string, err error)) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r := &relay{T: t, port: uint16(l.Addr().(*net.TCPAddr).Port)}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.relay(conn, serve)
		}
	}()
	return r
}

func (r *relay) relay(conn net.Conn, serve func(*relay, net.Conn) (string, error)) {
	defer conn.Close()
	target, err := serve(r, conn)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.asked = append(r.asked, target)
	r.mu.Unlock()
	_, port, _ := net.SplitHostPort(target)
	out, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		return
	}
	defer out.Close()
	go func() { _, _ = io.Copy(out, conn); out.Close() }()
	_, _ = io.Copy(conn, out)
}

func connectRelay(_ *relay, conn net.Conn) (string, error) {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return "", err
	}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(secretValues["PROXY"]))
	if req.Method != "CONNECT" || req.Header.Get("Proxy-Authorization") != want {
		fmt.Fprint(conn, "HTTP/1.1 407 No\r\n\r\n")
		return "", io.EOF
	}
	_, err = fmt.Fprint(conn, "HTTP/1.1 200 Yes\r\nVia: x\r\n\r\n")
	return req.Host, err
}

func socksRelay(_ *relay, conn net.Conn) (string, error) {
	r := bufio.NewReader(conn)
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		return "", err
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(r, methods); err != nil {
		return "", err
	}
	if !bytes.Contains(methods, []byte{2}) {
		_, _ = conn.Write([]byte{5, 0xff})
		return "", io.EOF
	}
	_, _ = conn.Write([]byte{5, 2}) // user and password
	said := make([]byte, 2+3+1+len("s3cr3t-word"))
	if _, err := io.ReadFull(r, said); err != nil || string(said[2:5])+":"+string(said[6:]) != secretValues["PROXY"] {
		_, _ = conn.Write([]byte{1, 1})
		return "", io.EOF
	}
	_, _ = conn.Write([]byte{1, 0})
	request := make([]byte, 5)
	if _, err := io.ReadFull(r, request); err != nil || request[3] != 3 {
		return "", io.EOF // no name
	}
	name := make([]byte, int(request[4])+2)
	if _, err := io.ReadFull(r, name); err != nil {
		return "", err
	}
	_, err := conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	n := len(name) - 2
	return fmt.Sprintf("%s:%d", name[:n], int(name[n])<<8|int(name[n+1])), err
}

// TestProxy: connections go through a proxy, which is told names and resolves them.
func TestProxy(t *testing.T) {
	world := newCA(t)
	port := site(t, world, echo, both, "a.example", "nowhere.example")
	for scheme, serve := range map[string]func(*relay, net.Conn) (string, error){"http": connectRelay, "socks5": socksRelay} {
		r := newRelay(t, serve)
		n := sandbox.Network{Allow: []string{"a.example", "nowhere.example", "a.example/udp"}, Proxy: fmt.Sprintf("%s://${PROXY}@127.0.0.1:%d", scheme, r.port),
			HTTP: []sandbox.HTTPRule{rule("nowhere.example", port, sandbox.HTTPRule{Headers: map[string]string{"Authorization": "${TOKEN}"}})}}
		b := newBoxOf(t, n, &Way{Hosts: map[string][]netip.Addr{}, Roots: world.pool()})
		res, err := b.client(world.pool(), true).Get(fmt.Sprintf("https://a.example:%d/", port))
		if status, text := said(t, res, err); status != 200 || !strings.Contains(text, "GET a.example") {
			t.Errorf("%s: %d %q", scheme, status, text)
		}
		res, err = b.client(b.trusting(), true).Get(fmt.Sprintf("https://nowhere.example:%d/", port))
		if status, text := said(t, res, err); status != 200 || !strings.Contains(text, "s3cr3t-value") {
			t.Errorf("%s: %d %q", scheme, status, text)
		}
		if _, err := b.reach("b.example", port); err == nil {
			t.Error("b.example is reached")
		}
		if conn, err := b.dial(netip.MustParseAddr("93.184.0.1"), port); err == nil {
			conn.Close()
			t.Error("an address that no entry allows is reached")
		}
		r.mu.Lock()
		if want := fmt.Sprintf("[a.example:%d nowhere.example:%d]", port, port); fmt.Sprint(r.asked) != want {
			t.Errorf("%s was asked for %v, want %s", scheme, r.asked, want)
		}
		r.mu.Unlock()
		n.Proxy = fmt.Sprintf("%s://127.0.0.1:%d", scheme, r.port)
		if err := b.gateway.Set(policyOf(t, n)); err != nil {
			t.Fatal(err)
		}
		if conn, err := b.reach("a.example", port); err == nil {
			conn.Close()
			t.Errorf("%s let somebody in without a password", scheme)
		}
		b.decision(func(d sandbox.NetworkDecision) bool {
			return d.Verdict == sandbox.VerdictFailed && strings.Contains(d.Reason, "proxy")
		})
		for _, d := range b.decisions() {
			if strings.Contains(fmt.Sprintf("%+v", d), "s3cr3t") {
				t.Errorf("told: %+v", d)
			}
		}
	}
}

// TestNamedProxy: a proxy that is named has a public address.
func TestNamedProxy(t *testing.T) {
	r := newRelay(t, connectRelay)
	port := serve(t, "0.0.0.0:0")
	for name, want := range map[string]bool{"a.example": true, "private.example": false, "local.example": false, "meta.example": false} {
		b := newBoxOf(t, sandbox.Network{Allow: []string{"nowhere.example"}, Proxy: fmt.Sprintf("http://${PROXY}@%s:%d", name, r.port)}, &Way{Hosts: hosts})
		conn, err := b.reach("nowhere.example", port)
		if (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			conn.Close()
		}
	}
}
