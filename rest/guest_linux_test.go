package rest_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/rest"
	"aether/sandbox"
)

// hostile is an engine with one sandbox, whose guest service is in the hands of whoever
// is inside: it says what a real one never would.
type hostile struct {
	*cellEngine
	address string
}

func (h hostile) Get(context.Context, engine.Caller, string) (engine.Sandbox, error) {
	return engine.Sandbox{ID: "s1", Tenant: "ann", State: engine.Running}, nil
}

func (h hostile) Dial(ctx context.Context, _ engine.Caller, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", h.address)
}

// openHostile opens a door to a sandbox that answers every connection so.
func openHostile(t *testing.T, limits rest.Limits, answer func(heard string, conn net.Conn)) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				answer(readHeader(conn), conn)
			}()
		}
	}()
	return openTo(t, hostile{newCellEngine(t), l.Addr().String()}, limits)
}

func readHeader(conn net.Conn) string {
	var heard strings.Builder
	for lines := bufio.NewReader(conn); ; {
		line, err := lines.ReadString('\n')
		heard.WriteString(line)
		if err != nil || line == "\r\n" {
			return heard.String()
		}
	}
}

// TestNoKeyGoesInside: what proves to the door who calls is not for the sandbox, and what
// is for the sandbox arrives.
func TestNoKeyGoesInside(t *testing.T) {
	heard := make(chan string, 1)
	d := openHostile(t, rest.Limits{}, func(said string, conn net.Conn) {
		heard <- said
		io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
	})
	const path = "/v1/sandboxes/s1/guest/files?path=/a%20b"
	d.send(t, "GET", path, annsKey, "", "Authorization", "Basic dXNlcjo=", "X-Access-Token", "token", "Cookie", "c=1", "Upgrade", "websocket", "Connection", "Upgrade, X-Mine", "X-Mine", "1")
	said := <-heard
	if strings.Contains(said, annsKey) || strings.Contains(said, "Cookie") || strings.Contains(said, "Upgrade") || strings.Contains(said, "X-Mine") {
		t.Errorf("inside is heard:\n%s", said)
	}
	if !strings.HasPrefix(said, "GET /files?path=/a%20b HTTP/1.1") || !strings.Contains(said, "Basic dXNlcjo=") || !strings.Contains(said, "X-Access-Token: token") {
		t.Errorf("inside is heard:\n%s", said)
	}
	d.send(t, "GET", path, "", "", "Authorization", "Bearer "+annsKey)
	if said := <-heard; strings.Contains(said, annsKey) {
		t.Errorf("inside is heard:\n%s", said)
	}
}

// TestAnswersFromInside: nothing in them is taken by a client for the daemon's word.
func TestAnswersFromInside(t *testing.T) {
	d := openHostile(t, rest.Limits{}, func(said string, conn net.Conn) {
		io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nLink: </evil>; rel=preload\r\nSet-Cookie: a=b\r\n\r\n")
		switch {
		case strings.Contains(said, "/moved"):
			io.WriteString(conn, "HTTP/1.1 307 Moved\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n")
		case strings.Contains(said, "/endless"):
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nX: %s\r\n\r\n", strings.Repeat("x", 1<<20))
		case strings.Contains(said, "/short"):
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		case strings.Contains(said, "/garbage"):
			io.WriteString(conn, "I am no HTTP\r\n\r\n")
		case strings.Contains(said, "/switch"):
			io.WriteString(conn, "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		default:
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\nAether-Error: denied\r\nAccess-Control-Allow-Origin: *\r\n"+
				"Clear-Site-Data: \"*\"\r\nContent-Security-Policy: none\r\nTrailer: Set-Cookie, X-Mine\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nSet-Cookie: c=d\r\nX-Mine: 1\r\n\r\n")
		}
	})
	got := d.send(t, "GET", "/v1/sandboxes/s1/guest/page", annsKey, "")
	for _, name := range []string{"Set-Cookie", "Aether-Error", "Access-Control-Allow-Origin", "Clear-Site-Data", "Link"} {
		if got.header.Get(name) != "" {
			t.Errorf("%s: %s comes out", name, got.header.Get(name))
		}
	}
	if got.status != 200 || got.body != "hi" || !strings.HasPrefix(got.header.Get("Content-Security-Policy"), "sandbox") || got.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%+v", got)
	}
	for _, path := range []string{"moved", "endless", "garbage", "switch"} {
		if got := d.send(t, "GET", "/v1/sandboxes/s1/guest/"+path, annsKey, ""); got.status != 502 || got.header.Get("Location") != "" || got.header.Get("Aether-Error") != "unavailable" {
			t.Errorf("%s: %+v", path, got)
		}
	}
	res, err := d.request(t, "/v1/sandboxes/s1/guest/short")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("half an answer is taken for the whole: %q", text)
	}
}

func (d *door) request(t *testing.T, path string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", d.http+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", annsKey)
	return http.DefaultClient.Do(req)
}

// TestSlowReader: whoever takes nothing of what it asked for is given up, and the sandbox
// let go.
func TestSlowReader(t *testing.T) {
	ended := make(chan error, 1)
	var sent atomic.Int64
	d := openHostile(t, rest.Limits{Stall: 300 * time.Millisecond}, func(_ string, conn net.Conn) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		for part := make([]byte, 64<<10); ; {
			n, err := conn.Write(part)
			if sent.Add(int64(n)); err != nil {
				ended <- err
				return
			}
		}
	})
	conn := d.dial(t)
	fmt.Fprintf(conn, "GET /v1/sandboxes/s1/guest/flood HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\n\r\n", annsKey)
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("it is still sent to")
	}
	if n := sent.Load(); n > 64<<20 {
		t.Errorf("%d bytes were taken for somebody who reads nothing", n)
	}
	eventually(t, func() bool { return len(d.audited()) == 1 })
	if c := d.audited()[0]; sandbox.ClassOf(c.Err) != sandbox.Unavailable || c.Operation != "sandbox.guest" || c.Sandbox != "s1" {
		t.Errorf("the audit trail has %+v", c)
	}
}

// TestPatience: the daemon's own user may take any time, as a pager does.
func TestPatience(t *testing.T) {
	const size = 16 << 20
	d := openHostile(t, rest.Limits{Stall: 50 * time.Millisecond}, func(_ string, conn net.Conn) {
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)
		conn.Write(make([]byte, size))
	})
	inside := d.client(t, "unix://"+d.socket, "").GuestOf("s1", guest.ClientOptions{})
	contents, err := inside.Read(t.Context(), "/long")
	if err != nil {
		t.Fatal(err)
	}
	defer contents.Close()
	time.Sleep(500 * time.Millisecond)
	if n, err := io.Copy(io.Discard, contents); n != size || err != nil {
		t.Errorf("%d bytes came, %v", n, err)
	}
}

// TestQuietAnswer: a guest may take longer with the next part than a reader may.
func TestQuietAnswer(t *testing.T) {
	longer(t, 200*time.Millisecond, func(t *testing.T, within time.Duration) error {
		d := openHostile(t, rest.Limits{Stall: within}, func(_ string, conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
			time.Sleep(2 * within)
			io.WriteString(conn, "1\r\nb\r\n")
			time.Sleep(2 * within)
			io.WriteString(conn, "0\r\n\r\n")
		})
		got, err := d.trySend(t, "GET", "/v1/sandboxes/s1/guest/slow", annsKey, "")
		if err != nil || got.body != "ab" {
			return fmt.Errorf("%+v, %v", got, err)
		}
		return nil
	})
}

// TestBothWaysAtOnce: a guest may answer while it is still being sent to.
func TestBothWaysAtOnce(t *testing.T) {
	d := openHostile(t, rest.Limits{}, func(_ string, conn net.Conn) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		io.Copy(conn, conn) // chunks are what they are both ways
	})
	conn := d.dial(t)
	fmt.Fprintf(conn, "POST /v1/sandboxes/s1/guest/echo HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nTransfer-Encoding: chunked\r\n\r\n", annsKey)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(res.Body)
	for i := range 5 {
		io.WriteString(conn, "2\r\n"+fmt.Sprint(i)+"\n\r\n")
		if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprint(i)+"\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	io.WriteString(conn, "0\r\n\r\n")
	if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

// TestAnsweredBeforeTheBody: a connection on which some of a body was left is not one for the
// next request, also if the client was rid of all of it. Whether it was is a matter of time, so
// it is tried often.
func TestAnsweredBeforeTheBody(t *testing.T) {
	d := openHostile(t, rest.Limits{}, func(_ string, conn net.Conn) {
		io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
		<-t.Context().Done() // and takes no more
	})
	for name, opts := range over(d) {
		c := d.client(t, opts.URL, opts.Key)
		for range 20 {
			// More than the server reads of what is left, and less than sockets hold.
			err := c.GuestOf("s1", guest.ClientOptions{}).Write(t.Context(), "/no/way", bytes.NewReader(make([]byte, 380<<10)))
			if sandbox.ClassOf(err) != sandbox.NotFound {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// absent is an engine whose sandbox cannot be connected to.
type absent struct{ hostile }

func (absent) Dial(context.Context, engine.Caller, string) (net.Conn, error) {
	return nil, &sandbox.Error{Class: sandbox.Conflict, Reason: "the sandbox is paused"}
}

// TestRefusedWhileSending: a refusal that comes before the body is one that its sender can still
// read, who is not told of a broken connection instead.
func TestRefusedWhileSending(t *testing.T) {
	d := openTo(t, absent{hostile{cellEngine: newCellEngine(t)}}, rest.Limits{})
	for _, piece := range []int{16, 64 << 10} {
		conn := d.dial(t)
		fmt.Fprintf(conn, "POST /v1/sandboxes/s1/guest/files HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nContent-Length: %d\r\n\r\n", annsKey, 16*piece)
		answer := bufio.NewReader(conn)
		if _, err := answer.Peek(1); err != nil {
			t.Fatal(err)
		}
		for range 16 {
			if _, err := conn.Write(make([]byte, piece)); err != nil {
				t.Fatal(err)
			}
		}
		res, err := http.ReadResponse(answer, nil)
		if err != nil || res.StatusCode != http.StatusConflict || !res.Close {
			t.Fatal(res, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Error(err)
		}
		if _, err := answer.ReadByte(); err != io.EOF {
			t.Errorf("the end of the connection: %v", err)
		}
	}
}

// TestHTTP2 carries a guest's answer to those who speak HTTP/2, with and without TLS.
func TestHTTP2(t *testing.T) {
	d := open(t, rest.Limits{})
	made, err := d.local(t).Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP2(true)
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: d.trust}}
	defer transport.CloseIdleConnections()
	for _, base := range []string{d.http, d.https} {
		var out bytes.Buffer
		carried := guest.NewClientOver(roundTrip(func(req *http.Request) (*http.Response, error) {
			out, err := http.NewRequestWithContext(req.Context(), req.Method, base+"/v1/sandboxes/"+made.ID+"/guest"+req.URL.RequestURI(), req.Body)
			if err != nil {
				return nil, err
			}
			out.Header = req.Header.Clone()
			out.Header.Set("X-API-Key", operatorKey)
			res, err := transport.RoundTrip(out)
			if err == nil && res.ProtoMajor != 2 {
				t.Errorf("%s is answered by %s", req.URL.Path, res.Proto)
			}
			return res, err
		}), guest.ClientOptions{})
		running, err := carried.Start(t.Context(), guest.Cmd{Path: "sh", Args: []string{"-c", "cat; kill -9 $$"}, Stdin: strings.NewReader("over two"), Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		if status, err := running.Wait(); err != nil || status.Signal != 9 || out.String() != "over two" {
			t.Errorf("%+v, %v, %q", status, err, out.String())
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestKeptConnectionOfAnEndedSandbox: a request to a sandbox whose instance is gone says so, though
// a connection to it was kept.
func TestKeptConnectionOfAnEndedSandbox(t *testing.T) {
	d := open(t, rest.Limits{})
	c := d.local(t)
	made, err := c.Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	g := c.GuestOf(made.ID, guest.ClientOptions{})
	file, err := g.Read(t.Context(), "/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, file)
	file.Close()
	if err := c.Destroy(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	_, err = g.Read(t.Context(), "/etc/passwd")
	wantClass(t, err, sandbox.NotFound)
}

// succeeded is a hostile engine whose sandbox is served by one instance after another.
type succeeded struct {
	hostile
	instance *int
}

func (s succeeded) Get(ctx context.Context, who engine.Caller, id string) (engine.Sandbox, error) {
	box, err := s.hostile.Get(ctx, who, id)
	box.Instance = *s.instance
	return box, err
}

// TestKeptConnectionOfAnotherInstance: what is said to a sandbox that was rolled back is not
// sent by a connection to what it was before, even if that is still open.
func TestKeptConnectionOfAnotherInstance(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for number := 1; ; number++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			go func() {
				for readHeader(conn) != "" {
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n%03d", number)
				}
			}()
		}
	}()
	instance := 1
	d := openTo(t, succeeded{hostile{newCellEngine(t), l.Addr().String()}, &instance}, rest.Limits{})
	by, kept := map[string]int{}, false
	for n := 0; n < 4 || !kept && n < 80; n++ { // a busy host does not keep each connection
		instance = 1 + n/2%2
		res, err := d.request(t, "/v1/sandboxes/s1/guest/files")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		was, known := by[string(text)]
		if err != nil || len(text) != 3 || known && was != instance {
			t.Errorf("instance %d is answered by connection %q, %v", instance, text, err)
		}
		by[string(text)], kept = instance, kept || known
	}
	if !kept {
		t.Error("no connection is kept")
	}
}
