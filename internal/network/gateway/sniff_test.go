package gateway

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"aether/internal/host/netdev/netdevtest"
)

// words are first words of connections, and what they are.
var words = map[string]kind{
	"GET / HTTP/1.1\r\nHost: b\r\n\r\n":      request,
	"get / http/1.1\n":                       request,
	"X1 / HTTP/1.0\r\n":                      request,
	"GET\t/\tHTTP/1.1\r\n":                   request,
	"GET / FOO/1.1\r\n":                      request,
	"GET /\r\n":                              request, // HTTP/0.9
	"GET http://b.example/\r\n":              request,
	"POST http://b.example/ HTTP/1.1\r\n":    request,
	"\r\n\r\n  GET / HTTP/1.1\r\n":           request,
	"CONNECT b.example:443\r\n":              request,
	"PRI * HTTP/2.0\r\n":                     request,
	"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n":     request, // and whatever follows
	proxied + "!":                            request,
	"\x16\x03\x01":                           hello,
	"PING\r\n":                               opaque,
	"*1\r\n$4\r\nPING\r\n":                   opaque,
	"get key\r\n":                            opaque,
	"set /key 0 0 5\r\nhello\r\n":            opaque,
	"NICK ann\r\nUSER ann 0 * :Ann\r\n":      opaque,
	"REGISTER sip:b.example SIP/2.0\r\n":     opaque,
	"CONNECT\naccept-version:1.2\n\n\x00":    opaque, // STOMP
	"SSH-2.0-client\r\n":                     opaque,
	"AMQP\x00\x00\x09\x01":                   opaque,
	"\x00\x00\x00\x08\x04\xd2\x16\x2f":       opaque, // PostgreSQL
	"0032git-upload-pack /a.git\x00host=b\n": opaque,
	"> hello":                                opaque,
	"hello\n":                                opaque,
	"\x15\x03\x01\x00\x02\x01\x5a":           hello, // after a warning
	"\x14\x03\x01":                           hello, // which will not be read
	"\x15":                                   undecided,
	"\x15\x01":                               opaque,
	"JDWP-Handshake":                         undecided,
	"GET / HT":                               undecided,
	"\r\n":                                   undecided,
	"":                                       undecided,
}

func TestSniff(t *testing.T) {
	for text, want := range words {
		if got, _ := sniff([]byte(text), false); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if k, harmless := sniff([]byte("GET"), false); k != undecided || !harmless {
		t.Errorf("a word: %d, %v", k, harmless)
	}
	if k, harmless := sniff([]byte("GET http://b.example/"), false); k != undecided || harmless {
		t.Errorf("a line that has not ended: %d, %v", k, harmless)
	}
	if k, _ := sniff([]byte("GET http://b.example/"), true); k != request {
		t.Errorf("a line that will not end: %d", k)
	}
	if k, _ := sniff(bytes.Repeat([]byte("\r\n"), maxHello/2), false); k != request {
		t.Errorf("empty lines without end: %d", k)
	}
}

// FuzzSniff: what this program's own reader takes for a request is one, and so is what a
// reader does that is less strict. It is no matter in which pieces it comes, and nothing
// that a server could act on is harmless.
func FuzzSniff(f *testing.F) {
	for text := range words {
		f.Add([]byte(text), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		if len(text) >= maxHello {
			return
		}
		whole, _ := sniff(text, true)
		if _, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text))); err == nil && whole != request {
			t.Errorf("%q is a request", text)
		}
		line, _, _ := strings.Cut(strings.TrimLeft(string(text), blanks), "\n")
		if w := strings.Fields(line); whole == opaque && len(w) > 1 && strings.EqualFold(w[0], "GET") && strings.HasPrefix(w[1], "/") {
			t.Errorf("%q could be a request", text)
		}
		if at < 0 || at > len(text) {
			return
		}
		piece, harmless := sniff(text[:at], false)
		if piece != undecided && piece != whole {
			t.Errorf("%q is %d, and %q is %d", text[:at], piece, text, whole)
		}
		if harmless && len(strings.Fields(string(text[:at]))) > 1 && !strings.HasPrefix(proxied, string(text[:at])) {
			t.Errorf("%q is passed on", text[:at])
		}
	})
}

// hears is a server that says what answer makes of all that it has heard, and nothing as
// long as that is "".
func hears(t *testing.T, answer func(all, last string) string) (port uint16) {
	t.Helper()
	return uint16(netdevtest.Serve(t, "0.0.0.0:0", func(conn net.Conn) {
		buf, seen := make([]byte, 4<<10), ""
		for {
			n, err := conn.Read(buf)
			seen += string(buf[:n])
			_, _ = io.WriteString(conn, answer(seen, string(buf[:n])))
			if err != nil {
				return
			}
		}
	}).Port)
}

// lenient takes much for a request.
func lenient(t *testing.T) (port uint16) {
	t.Helper()
	return hears(t, func(all, _ string) string {
		if strings.Contains(all, "b.example") {
			return "the secret of b.example\n"
		}
		return ""
	})
}

// TestSpokenLines: protocols in which programs speak first go on as they are, also those
// whose first word waits for an answer before its line has ended.
func TestSpokenLines(t *testing.T) {
	port := hears(t, func(_, last string) string { return last })
	b := newBox(t, "a.example")
	for _, line := range []string{"PING\r\n", "NICK ann\r\n", "get key\r\n", "*1\r\n$4\r\nPING\r\n", "JDWP-Handshake", "\r\n", "AMQP\x00\x00\x09\x01"} {
		conn, err := b.reach("a.example", port)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{line, "and more\n"} {
			_ = conn.SetDeadline(time.Now().Add(patience))
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			back := make([]byte, len(text))
			if _, err := io.ReadFull(conn, back); err != nil || string(back) != text {
				t.Errorf("%q: %q, %v", text, back, err)
			}
		}
		conn.Close()
	}
}

// TestLenientServer: nothing that it would take for a request to another host gets there,
// however it is cut into pieces.
func TestLenientServer(t *testing.T) {
	port := lenient(t)
	b := newBox(t, "a.example")
	for _, pieces := range [][]string{
		{"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n"},
		{"G", "ET / HTTP/1.1\r\nHost: b.example\r\n\r\n"},
		{"GET / HTT", "P/1.1\r\nHost: b.example\r\n\r\n"},
		{"GET", " / HTTP/1.1\r\nHost: b.example\r\n\r\n"},
		{"\r\n", "\r\nGET / HTTP/1.1\r\nHost: b.example\r\n\r\n"},
		{"get\t/ http/1.1\nHost: b.example\n\n"},
		{"X1 / HTTP/1.1\r\nHost: b.example\r\n\r\n"},
		{"GET / FOO\r\nHost: b.example\r\n\r\n"},
		{"GET http://b.example/\r\n"},
		{"GET http://b.example/", "\r\n"},
		{"CONNECT b.example:443\r\n\r\n"},
		{"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n"},
		{"\r\n\r\n\x00\r\nQUI", "T\n", "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n"},
	} {
		conn, err := b.reach("a.example", port)
		if err != nil {
			t.Fatal(err)
		}
		for i, piece := range pieces {
			if i > 0 {
				time.Sleep(20 * time.Millisecond)
			}
			_, _ = io.WriteString(conn, piece) // it may have been cut
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		if said, _ := io.ReadAll(conn); strings.Contains(string(said), "the secret") {
			t.Errorf("%q: %q", pieces, said)
		}
		conn.Close()
	}
}

// TestUnfinishedLine: a line that is not ended is judged when there is no more of it.
func TestUnfinishedLine(t *testing.T) {
	port := lenient(t)
	b := newBox(t, "a.example")
	conn, err := b.reach("a.example", port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET http://b.example/"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if said, _ := io.ReadAll(conn); strings.Contains(string(said), "the secret") {
		t.Errorf("%q", said)
	}
}
