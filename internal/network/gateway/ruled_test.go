package gateway

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

func rule(host string, port uint16, more sandbox.HTTPRule) sandbox.HTTPRule {
	more.Host = fmt.Sprintf("%s:%d", host, port)
	return more
}

var both = []string{"h2", "http/1.1"}

// echo says what came.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Alt-Svc", `h3=":443"`)
	if r.URL.Path == "/away" {
		w.Header().Set("Location", "https://b.example/")
		w.WriteHeader(http.StatusFound)
		return
	}
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %s\n%q %q %q\n%s", r.Proto, r.Method, r.Host, r.RequestURI,
		r.Header["Authorization"], r.Header["X_api-Key"], r.Header["X-Http-Method-Override"], body)
})

func said(t testing.TB, res *http.Response, err error) (status int, text string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// TestEndedTLS: TLS ends in the gateway for hosts that rules are about, and for no other; a
// header is set that the sandbox does not have, whatever it sends under that name.
func TestEndedTLS(t *testing.T) {
	world := newCA(t)
	for _, upstream := range [][]string{both, {"http/1.1"}, {"h2"}} {
		for _, second := range []bool{false, true} {
			port := site(t, world, echo, upstream, "a.example", "b.example")
			b := newBoxOf(t, sandbox.Network{Allow: []string{"a.example", "b.example"}, HTTP: []sandbox.HTTPRule{
				rule("a.example", port, sandbox.HTTPRule{Headers: map[string]string{"authorization": "Bearer ${TOKEN}", "X-Api-Key": "k"}}),
			}}, &Way{Hosts: hosts, Roots: world.pool()})
			req, err := http.NewRequest("POST", fmt.Sprintf("https://a.example:%d/x/../y%%2fz?q=%%", port), strings.NewReader("the body"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Authorization": {"Bearer mine"}, "X_api-Key": {"mine"}, "Connection": {"authorization"}, "X-Http-Method-Override": {"DELETE"}}
			if second {
				req.Header.Del("Connection")
			}
			res, err := b.client(b.trusting(), second).Do(req)
			status, text := said(t, res, err)
			proto := "HTTP/2.0"
			if upstream[0] == "http/1.1" {
				proto = "HTTP/1.1"
			}
			want := fmt.Sprintf("%s POST a.example:%d /x/../y%%2fz?q=%%\n[\"Bearer s3cr3t-value\"] [] []\nthe body", proto, port)
			if status != 200 || text != want {
				t.Errorf("%v, second %v: %d %q, want %q", upstream, second, status, text, want)
			}
			if !second && upstream[0] == "h2" {
				continue // the two cannot speak to each other
			}
			res, err = b.client(world.pool(), second).Get(fmt.Sprintf("https://b.example:%d/", port))
			if status, text := said(t, res, err); status != 200 || strings.Contains(text, "s3cr3t") || res.Header.Get("Alt-Svc") == "" {
				t.Errorf("b.example: %d %q", status, text)
			}
			if res, err := b.client(world.pool(), second).Get(fmt.Sprintf("https://a.example:%d/", port)); err == nil {
				res.Body.Close()
				t.Error("the host's own certificate came through")
			}
			for _, d := range b.decisions() {
				if strings.Contains(fmt.Sprintf("%+v", d), "s3cr3t") {
					t.Errorf("told: %+v", d)
				}
			}
		}
	}
}

// decisions are those that were told so far.
func (b *box) decisions() []sandbox.NetworkDecision {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]sandbox.NetworkDecision{}, b.told...)
}

// TestRedirects go to the sandbox, which follows them without the header.
func TestRedirects(t *testing.T) {
	world := newCA(t)
	port := site(t, world, echo, both, "a.example")
	b := newBoxOf(t, sandbox.Network{Allow: []string{"a.example"}, HTTP: []sandbox.HTTPRule{
		rule("a.example", port, sandbox.HTTPRule{Headers: map[string]string{"Authorization": "${TOKEN}"}})}}, &Way{Hosts: hosts, Roots: world.pool()})
	res, err := b.client(b.trusting(), true).Get(fmt.Sprintf("https://a.example:%d/away", port))
	if status, _ := said(t, res, err); status != http.StatusFound || res.Header.Get("Location") != "https://b.example/" {
		t.Errorf("%d, %v", status, res.Header)
	}
	for name, values := range res.Header {
		if strings.Contains(strings.Join(values, ""), "s3cr3t") {
			t.Errorf("%s: %q", name, values)
		}
	}
}

// TestRequestRules: methods and paths are held to, and what was checked is what is sent.
func TestRequestRules(t *testing.T) {
	world := newCA(t)
	port := site(t, world, echo, both, "a.example")
	b := newBoxOf(t, sandbox.Network{Allow: []string{"a.example"}, HTTP: []sandbox.HTTPRule{
		rule("a.example", port, sandbox.HTTPRule{Methods: []string{"GET"}, Paths: []string{"/v1/*", "/exact", "/a%2Fb"}}),
		rule("a.example", port, sandbox.HTTPRule{Methods: []string{"POST"}, Paths: []string{"/post"}, Headers: map[string]string{"Authorization": "p"}}),
	}}, &Way{Hosts: hosts, Roots: world.pool()})
	for _, c := range []struct {
		method, target string
		want           int
	}{
		{"GET", "/v1/", 200}, {"GET", "/v1/models?x=/../", 200}, {"GET", "/v1/a%2fb", 200}, {"GET", "/v1/%E2%82%AC", 200}, {"GET", "/exact", 200}, {"GET", "/exact?", 200},
		{"GET", "/a%2Fb", 200}, {"POST", "/post", 200}, {"GET", "/v1/..x", 200},
		{"GET", "/a/b", 403}, {"GET", "/a%2fb", 403}, {"GET", "/v1", 403}, {"GET", "/", 403}, {"GET", "/exact/", 403}, {"GET", "/EXACT", 403}, {"GET", "/V1/x", 403},
		{"GET", "/%76%31/x", 403}, {"GET", "//v1/x", 403}, {"GET", "/v1//x", 403}, {"GET", "/v1/../exact", 403}, {"GET", "/v1/..", 403}, {"GET", "/v1/%2e%2e/admin", 403},
		{"GET", "/v1/%2E./admin", 403}, {"GET", "/v1/..%2fadmin", 403}, {"GET", "/v1/..%5cadmin", 403}, {"GET", "/v1/%252e%252e/admin", 403}, {"GET", "/v1/%25252e%25252e%25252fadmin", 403},
		{"GET", "/v1/..;/admin", 403}, {"GET", "/v1/;/x", 403}, {"GET", "/v1/x%00", 403}, {"GET", "/v1/x%0d%0aX:%20y", 403}, {"GET", "/v1/x#y", 403}, {"GET", "/v1/%23", 403}, {"GET", "/v1/%3f", 403},
		{"GET", "/v1/.", 403}, {"GET", "/v1/./x", 403}, {"GET", "/v1/\\..\\admin", 403}, {"GET", "/v1/a|b", 403}, {"GET", "/v1/%", 400}, {"GET", "*", 403},
		{"POST", "/v1/", 403}, {"GET", "/post", 403}, {"get", "/v1/", 403}, {"DELETE", "/v1/", 403}, {"PRI", "*", 403},
		{"GET", "https://a.example/v1/x", 403}, {"GET", "http://b.example/v1/x", 403}, {"CONNECT", "a.example:443", 403},
	} {
		status, text := b.rawTLS("a.example", port, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: a.example\r\n\r\n", c.method, c.target))
		if status != c.want {
			t.Errorf("%s %s: %d %q, want %d", c.method, c.target, status, text, c.want)
		}
		if sent := strings.Fields(text); status == 200 && sent[3] != c.target {
			t.Errorf("%s was sent as %s", c.target, sent[3])
		}
	}
}

// rawTLS sends bytes as a request, after a handshake.
func (b *box) rawTLS(name string, port uint16, request string) (int, string) {
	b.Helper()
	conn, err := b.reach(name, port)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	client := tls.Client(conn, &tls.Config{ServerName: name, RootCAs: b.trusting()})
	if _, err := io.WriteString(client, request); err != nil {
		b.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		b.Errorf("%q: %v", request, err)
		return 0, ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.Errorf("%q: %v", request, err)
	}
	return res.StatusCode, string(text)
}

// TestNothingButRequests: to a host that rules are about, nothing is passed on but HTTP for
// that host, with the name in the hello, and secrets over TLS alone.
func TestNothingButRequests(t *testing.T) {
	world := newCA(t)
	port, plain, greets := site(t, world, echo, both, "a.example", "b.example"), web(t, false), serve(t, "0.0.0.0:0")
	headers := map[string]string{"Authorization": "${TOKEN}"}
	b := newBoxOf(t, sandbox.Network{Allow: []string{"a.example", "sub.wild.example", "93.184.0.0/16", "a.example/udp"}, HTTP: []sandbox.HTTPRule{
		rule("a.example", port, sandbox.HTTPRule{Headers: headers}), rule("a.example", plain, sandbox.HTTPRule{Headers: headers}),
		rule("a.example", greets, sandbox.HTTPRule{}), rule("*.wild.example", plain, sandbox.HTTPRule{Methods: []string{"GET"}, Headers: map[string]string{"X-Y": "z"}}),
	}}, &Way{Hosts: hosts, Roots: world.pool()})
	for _, sni := range []string{"", "b.example", "x.a.example"} {
		conn, err := b.reach("a.example", port)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		if err := tls.Client(conn, &tls.Config{ServerName: sni, InsecureSkipVerify: true}).Handshake(); err == nil {
			t.Errorf("a hello for %q was answered", sni)
		}
		conn.Close()
	}
	for request, want := range map[string]int{
		"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n": 403, "GET / HTTP/1.1\r\nHost: a.example:1\r\n\r\n": 403, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n": 200,
		"GET / HTTP/1.1\r\nHost: A.EXAMPLE.\r\n\r\n": 200, "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n": 200,
	} {
		if status, text := b.rawTLS("a.example", port, request); status != want {
			t.Errorf("%q: %d %q", request, status, text)
		}
	}
	// By its address, its name is not passed on, whoever allows the address.
	conn, err := b.dial(hosts["a.example"][0], port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if err := tls.Client(conn, &tls.Config{ServerName: "a.example", InsecureSkipVerify: true}).Handshake(); err == nil {
		t.Error("a.example was reached by its address")
	}
	// A secret is not sent in the clear, and other requests are.
	if status := b.ask("a.example", plain, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"); status != 403 {
		t.Errorf("a secret in the clear: %d", status)
	}
	if status := b.ask("sub.wild.example", plain, "GET / HTTP/1.1\r\nHost: sub.wild.example\r\n\r\n"); status != 200 {
		t.Errorf("without a secret: %d", status)
	}
	if status := b.ask("sub.wild.example", plain, "POST / HTTP/1.1\r\nHost: sub.wild.example\r\n\r\n"); status != 403 {
		t.Errorf("another method: %d", status)
	}
	// A host that speaks first is not heard.
	conn, err = b.reach("a.example", greets)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	if said, err := greeting(conn); err == nil {
		t.Errorf("the host said %q", said)
	}
}

// TestUnknownHostCertificate: a host that this host would not believe is not believed.
func TestUnknownHostCertificate(t *testing.T) {
	port := site(t, newCA(t), echo, both, "a.example")
	world := newCA(t)
	wrong := site(t, world, echo, both, "b.example")
	for _, p := range []uint16{port, wrong} {
		b := newBoxOf(t, sandbox.Network{Allow: []string{"a.example"}, HTTP: []sandbox.HTTPRule{rule("a.example", p, sandbox.HTTPRule{})}}, &Way{Hosts: hosts, Roots: world.pool()})
		res, err := b.client(b.trusting(), true).Get(fmt.Sprintf("https://a.example:%d/", p))
		if status, text := said(t, res, err); status != http.StatusBadGateway || !strings.Contains(text, "x509") {
			t.Errorf("%d %q", status, text)
		}
	}
}

// TestStreaming: bytes of bodies pass both ways as they come, by either protocol.
func TestStreaming(t *testing.T) {
	world := newCA(t)
	answers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			fmt.Fprintln(w, "heard", lines.Text())
			_ = http.NewResponseController(w).Flush()
		}
	})
	for _, second := range []bool{false, true} {
		port := site(t, world, answers, both, "a.example")
		b := newBoxOf(t, sandbox.Network{Allow: []string{"a.example"}, HTTP: []sandbox.HTTPRule{rule("a.example", port, sandbox.HTTPRule{})}}, &Way{Hosts: hosts, Roots: world.pool()})
		r, w := io.Pipe()
		req, err := http.NewRequest("POST", fmt.Sprintf("https://a.example:%d/", port), r)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.WriteString(w, "zero\n") }()
		res, err := b.client(b.trusting(), second).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer := bufio.NewReader(res.Body)
		for i, word := range []string{"zero", "one", "two"} {
			if i > 0 {
				if _, err := io.WriteString(w, word+"\n"); err != nil {
					t.Fatal(err)
				}
			}
			if line, err := answer.ReadString('\n'); err != nil || line != "heard "+word+"\n" {
				t.Fatalf("second %v: %q, %v", second, line, err)
			}
		}
		w.Close()
		res.Body.Close()
	}
}

// TestAnsweredBeforeTheBody: a connection on which some of a body was left is not one for the
// next request, also if the client was rid of all of it. Whether it was is a matter of time, so
// it is tried often.
func TestAnsweredBeforeTheBody(t *testing.T) {
	world := newCA(t)
	port := site(t, world, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) }), []string{"http/1.1"}, "a.example")
	b := newBoxOf(t, sandbox.Network{Allow: []string{"a.example"}, HTTP: []sandbox.HTTPRule{rule("a.example", port, sandbox.HTTPRule{})}}, &Way{Hosts: hosts, Roots: world.pool()})
	client := b.client(b.trusting(), false)
	for range 10 {
		again := false
		trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { again = got.Reused }}
		// More than the gateway reads of what is left, and less than is under way at once.
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "POST", fmt.Sprintf("https://a.example:%d/", port), bytes.NewReader(make([]byte, 380<<10)))
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err == nil {
			res.Body.Close()
		} else if again { // and did not notice the end of its own connection before the answer
			t.Error(err)
		}
	}
}

// TestWebSocket: a connection becomes a WebSocket, and is cut when the rules change.
func TestWebSocket(t *testing.T) {
	world := newCA(t)
	port := site(t, world, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			w.WriteHeader(500)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n%s", r.Header.Get("Upgrade"), r.Header.Get("Authorization"))
		_, _ = io.Copy(conn, conn)
	}), both, "a.example")
	n := sandbox.Network{Allow: []string{"a.example"}, HTTP: []sandbox.HTTPRule{rule("a.example", port, sandbox.HTTPRule{Headers: map[string]string{"Authorization": "hello"}})}}
	b := newBoxOf(t, n, &Way{Hosts: hosts, Roots: world.pool()})
	raw, err := b.reach("a.example", port)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(patience))
	conn := tls.Client(raw, &tls.Config{ServerName: "a.example", RootCAs: b.trusting()})
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("%+v, %v", res, err)
	}
	heard := make([]byte, 5)
	if _, err := io.ReadFull(r, heard); err != nil || string(heard) != "hello" {
		t.Fatalf("%q, %v", heard, err)
	}
	for _, word := range []string{"first", "again"} {
		fmt.Fprint(conn, word)
		if _, err := io.ReadFull(r, heard); err != nil || string(heard) != word {
			t.Fatalf("%q, %v", heard, err)
		}
	}
	n.HTTP[0].Paths = []string{"/other"}
	if err := b.gateway.Set(policyOf(t, n)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("it goes on")
	}
}

// TestAuthority: a sandbox's authority is for the hosts of its rules alone.
func TestAuthority(t *testing.T) {
	n := sandbox.Network{Allow: []string{"a.example"}, HTTP: []sandbox.HTTPRule{{Host: "a.example"}, {Host: "*.wild.example"}}}
	b := newBoxOf(t, n, &Way{Hosts: hosts})
	a := b.gateway.authority.Load()
	for name, want := range map[string]bool{"a.example": true, "sub.wild.example": true, "b.example": false, "evil.com": false} {
		leaf, err := a.leaf(name)
		if err != nil {
			t.Fatal(err)
		}
		config := &tls.Config{ServerName: name, RootCAs: b.trusting()}
		client, server := net.Pipe()
		go func() {
			_ = tls.Server(server, &tls.Config{Certificates: []tls.Certificate{*leaf}}).Handshake()
			server.Close()
		}()
		if err := tls.Client(client, config).Handshake(); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
		client.Close()
	}
	for i := range 2 * maxLeaves {
		if _, err := a.leaf(fmt.Sprintf("x%d.wild.example", i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.leaves) != maxLeaves || a.recent.Len() != maxLeaves {
		t.Errorf("%d and %d certificates", len(a.leaves), a.recent.Len())
	}
	other := newBoxOf(t, n, &Way{Hosts: hosts})
	if string(other.gateway.Authority()) == string(b.gateway.Authority()) {
		t.Error("two sandboxes have one authority")
	}
	before := string(b.gateway.Authority())
	n.HTTP = append(n.HTTP, sandbox.HTTPRule{Host: "b.example"})
	if err := b.gateway.Set(policyOf(t, n)); err != nil {
		t.Fatal(err)
	}
	if string(b.gateway.Authority()) == before {
		t.Error("the certificate is not for the new host")
	}
	if none := newBox(t, "a.example"); none.gateway.Authority() != nil {
		t.Error("a sandbox without rules has an authority")
	}
}
