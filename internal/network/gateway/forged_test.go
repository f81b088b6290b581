package gateway

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

// web is a host that serves every name over TLS or without, on any address.
func web(t *testing.T, encrypted bool) uint16 {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Method, r.Host)
	}))
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Listener.Close()
	s.Listener = l
	if encrypted {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// TestForgedHello: TLS is passed on for the name that was asked for, and for no other.
func TestForgedHello(t *testing.T) {
	port := web(t, true)
	b := newBox(t, "a.example", "93.184.0.9")
	for sni, want := range map[string]bool{"a.example": true, "A.example": true, "": true, "b.example": false, "evil.a.example": false} {
		conn, err := b.reach("a.example", port)
		if err != nil {
			t.Fatal(err)
		}
		client := tls.Client(conn, &tls.Config{ServerName: sni, InsecureSkipVerify: true})
		_ = conn.SetDeadline(time.Now().Add(patience))
		if err := client.Handshake(); (err == nil) != want {
			t.Errorf("a hello for %q: %v", sni, err)
		}
		conn.Close()
		if !want {
			b.decision(func(d sandbox.NetworkDecision) bool {
				return d.Verdict == sandbox.VerdictDenied && d.Kind == "tls" && strings.HasSuffix(d.Reason, "for "+sni)
			})
		}
	}
}

// TestHiddenHello: a hello that hides its name is not passed on.
func TestHiddenHello(t *testing.T) {
	port := web(t, true)
	b := newBox(t, "a.example")
	conn, err := b.reach("a.example", port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var hello bytes.Buffer
	record := tls.Client(&recorder{Conn: conn, to: &hello}, &tls.Config{ServerName: "a.example", InsecureSkipVerify: true})
	_ = record.Handshake()
	if _, err := conn.Write(withExtension(t, hello.Bytes(), encryptedHello)); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes came back", n)
	}
	b.decision(func(d sandbox.NetworkDecision) bool { return d.Reason == "the hello hides its name" })
}

// recorder keeps what is written, and ends.
type recorder struct {
	net.Conn
	to *bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error) { return r.to.Write(b) }
func (r *recorder) Read([]byte) (int, error)    { return 0, io.EOF }

// withExtension adds an empty extension to a hello that is one record.
func withExtension(t *testing.T, record []byte, kind uint16) []byte {
	t.Helper()
	out := append(bytes.Clone(record), byte(kind>>8), byte(kind), 0, 0)
	grow := func(at, size int) {
		n := 0
		for _, c := range out[at : at+size] {
			n = n<<8 | int(c)
		}
		n += 4
		for i := range size {
			out[at+size-1-i] = byte(n >> (8 * i))
		}
	}
	at := 5 + 4 + 2 + 32
	at += 1 + int(out[at])                       // session
	at += 2 + (int(out[at])<<8 | int(out[at+1])) // suites
	at += 1 + int(out[at])                       // compression
	grow(3, 2)
	grow(6, 3)
	grow(at, 2)
	return out
}

// TestForgedRequest: requests that are not encrypted are read one by one.
func TestForgedRequest(t *testing.T) {
	port := web(t, false)
	b := newBox(t, "a.example")
	for _, c := range []struct {
		name, request string
		want          int
	}{
		{"plain", "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", 200},
		{"port", fmt.Sprintf("GET / HTTP/1.1\r\nHost: A.example.:%d\r\n\r\n", port), 200},
		{"another name", "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n", 403},
		{"another port", "GET / HTTP/1.1\r\nHost: a.example:1\r\n\r\n", 403},
		{"whole address", "GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", 403},
		{"empty lines before it", "\r\n\r\nGET / HTTP/1.1\r\nHost: b.example\r\n\r\n", 400},
		{"small letters", "get / HTTP/1.1\r\nHost: b.example\r\n\r\n", 403},
		{"no host", "GET / HTTP/1.0\r\n\r\n", 403},
		{"relay", "CONNECT b.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n", 403},
		{"relay to itself", fmt.Sprintf("CONNECT a.example:%d HTTP/1.1\r\nHost: a.example:%d\r\n\r\n", port, port), 403},
		{"two hosts", "GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n", 400},
	} {
		if status := b.ask("a.example", port, c.request); status != c.want {
			t.Errorf("%s: %d, want %d", c.name, status, c.want)
		}
	}
	b.checkSecond(port)
}

// ask sends a request as it is.
func (b *box) ask(name string, port uint16, request string) int {
	b.Helper()
	conn, err := b.reach(name, port)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, request); err != nil {
		b.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		b.Errorf("%q: %v", request, err)
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// checkSecond: the second request of a connection is looked at like the first.
func (b *box) checkSecond(port uint16) {
	b.Helper()
	conn, err := b.reach("a.example", port)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	reader := bufio.NewReader(conn)
	for _, c := range []struct {
		host string
		want int
	}{{"a.example", 200}, {"a.example", 200}, {"b.example", 403}} {
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", c.host)
		res, err := http.ReadResponse(reader, nil)
		if err != nil || res.StatusCode != c.want {
			b.Fatalf("%s: %+v, %v", c.host, res, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPolicyChanges: connections that are no longer allowed are cut, and the others go on.
func TestPolicyChanges(t *testing.T) {
	port := serve(t, "0.0.0.0:0")
	b := newBox(t, "a.example", "b.example")
	conns := map[string]net.Conn{}
	for _, name := range []string{"a.example", "b.example"} {
		conn, err := b.reach(name, port)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := greeting(conn); err != nil {
			t.Fatal(err)
		}
		conns[name] = conn
	}
	if err := b.gateway.Set(compiled(t, []string{"a.example"}, nil)); err != nil {
		t.Fatal(err)
	}
	if said, err := greeting(conns["b.example"]); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("b.example says %q, %v: not a reset", said, err)
	}
	if _, err := conns["a.example"].Write([]byte("still here")); err != nil {
		t.Error(err)
	}
	if said, err := greeting(conns["a.example"]); err != nil || said != "still here" {
		t.Errorf("a.example: %q, %v", said, err)
	}
	if conn, err := b.reach("b.example", port); err == nil {
		conn.Close()
		t.Error("b.example can be reached again")
	}
}
