package gateway

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"testing"
	"time"

	"aether/sandbox"

	"golang.org/x/net/dns/dnsmessage"
)

// bare is a gateway without a sandbox.
func bare(t testing.TB, n sandbox.Network) *Gateway {
	g := &Gateway{opts: Options{Way: &Way{Hosts: hosts}, Logger: slog.New(slog.DiscardHandler)}, names: newNames(), asked: newPace(1e9, 1e9), rate: newPace(0, 0)}
	p := policyOf(t, n)
	g.policy.Store(&p)
	g.ctx = t.Context()
	return g
}

// FuzzAnswer gives any bytes as a question. What is answered is an answer, and says nothing
// of names that are not allowed.
func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"a.example.", "b.example.", "A.Example.", "1.0.19.198.in-addr.arpa.", "."} {
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypePTR, dnsmessage.TypeHTTPS} {
			m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true},
				Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}}}
			text, err := m.Pack()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	g := bare(f, sandbox.Network{Allow: []string{"a.example"}})
	f.Fuzz(func(t *testing.T, question []byte) {
		reply := g.answer(question)
		if reply == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(reply); err != nil || !m.Response || len(reply) > maxQuestion {
			t.Fatalf("%d bytes, %v", len(reply), err)
		}
		for _, a := range m.Answers {
			if name, err := sandbox.ParseHostName(a.Header.Name.String()); a.Header.Type == dnsmessage.TypeA && (err != nil || name != "a.example") {
				t.Errorf("an answer about %q", a.Header.Name.String())
			}
		}
	})
}

// spoken is a connection whose other side has said all that it will.
type spoken struct {
	net.Conn
	io.Reader
}

func (s spoken) Read(b []byte) (int, error)      { return s.Reader.Read(b) }
func (s spoken) SetReadDeadline(time.Time) error { return nil }

// FuzzHello gives any bytes as the first of a connection of TLS. No more is kept of them
// than a hello may be long, and all that were read are there to be passed on.
func FuzzHello(f *testing.F) {
	var hello bytes.Buffer
	_ = tls.Client(&recorder{to: &hello}, &tls.Config{ServerName: "a.example"}).Handshake()
	f.Add(hello.Bytes())
	f.Add([]byte{22, 3, 1, 0, 0})
	f.Add(bytes.Repeat([]byte{22, 3, 1, 0, 1, 1}, 100))
	g := bare(f, sandbox.Network{Allow: []string{"a.example"}})
	f.Fuzz(func(t *testing.T, text []byte) {
		var seen bytes.Buffer
		h, err := readHello(spoken{Reader: bytes.NewReader(text)}, &seen)
		if seen.Len() > maxHello || !bytes.HasPrefix(text, seen.Bytes()) {
			t.Fatalf("%d bytes of %d were kept", seen.Len(), len(text))
		}
		if err == nil && g.checkHello(target{name: "a.example", port: 443}, h) == nil && h.ServerName != "" && !isFor(h.ServerName, "a.example") {
			t.Errorf("a hello for %q passed", h.ServerName)
		}
	})
}

// FuzzRequest gives any bytes as a request to a host that rules are about. Whatever passes
// is sent as it came, and no server takes its path for one that is not allowed.
func FuzzRequest(f *testing.F) {
	for _, line := range []string{"GET /v1/x", "GET /v1/%2e%2e/x", "GET //v1/x", "POST /v1/a?b#c", "GET http://a.example/v1/", "OPTIONS *", "GET /v1/..;/x", "GET /v1/%252e%252e/"} {
		f.Add([]byte(line + " HTTP/1.1\r\nHost: a.example\r\nConnection: x-key\r\nX-Key: mine\r\n\r\n"))
	}
	g := bare(f, sandbox.Network{Allow: []string{"a.example"}, HTTP: []sandbox.HTTPRule{
		{Host: "a.example", Methods: []string{"GET"}, Paths: []string{"/v1/*"}, Headers: map[string]string{"X-Key": "ours"}}}})
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
		if err != nil {
			return
		}
		e := &exchange{gateway: g, target: target{name: "a.example", port: 80, address: netip.MustParseAddr("198.19.0.1")}}
		e.proxy = http.HandlerFunc(func(_ http.ResponseWriter, in *http.Request) {
			out := in.Clone(in.Context())
			e.rewrite(&httputil.ProxyRequest{In: in, Out: out})
			checkSent(t, in, out)
		})
		e.pass(httptest.NewRecorder(), r)
	})
}

func checkSent(t *testing.T, in, out *http.Request) {
	t.Helper()
	sent, _, _ := strings.Cut(out.URL.RequestURI(), "?")
	came, _, _ := strings.Cut(in.RequestURI, "?")
	if sent != came || in.Method != "GET" || hostOf(out.Host, 80) != "a.example" || out.URL.Host != "a.example:80" {
		t.Errorf("%s %q was sent as %q to %q", in.Method, in.RequestURI, out.URL.RequestURI(), out.Host)
	}
	for read := sent; ; {
		for _, way := range []string{read, strings.ReplaceAll(read, "\\", "/")} {
			if !strings.HasPrefix(path.Clean(way)+"/", "/v1/") {
				t.Errorf("%q can be read as %q", sent, path.Clean(way))
			}
		}
		next, err := url.PathUnescape(read)
		if err != nil || next == read {
			break
		}
		read = next
	}
	if v := out.Header["X-Key"]; len(v) != 1 || v[0] != "ours" {
		t.Errorf("the header is %q", v)
	}
}
