package vmmtest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"aether/driver/vmm"
	"aether/sandbox"
)

// patience is how long a call to a monitor that does not answer is given, and
// limit how long it may take to notice.
const (
	patience = 300 * time.Millisecond
	limit    = 5 * time.Second
)

// answers are what a monitor may do that a guest has taken over, or that is none:
// what it writes once it has read a request.
var answers = map[string]func(conn net.Conn){
	"garbage":           func(c net.Conn) { fmt.Fprint(c, "\x00\x01\x02garbage\r\n\r\n") },
	"nothing":           func(net.Conn) {},
	"half a header":     func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 20") },
	"an endless line":   func(c net.Conn) { forever(c, "HTTP/1.1 200 OK\r\nX: ", "x") },
	"endless headers":   func(c net.Conn) { forever(c, "HTTP/1.1 200 OK\r\n", "X: x\r\n") },
	"an endless body":   func(c net.Conn) { forever(c, "HTTP/1.1 200 OK\r\n\r\n", " ") },
	"an endless fault":  func(c net.Conn) { forever(c, "HTTP/1.1 400 Bad Request\r\n\r\n", "[") },
	"endless chunks":    func(c net.Conn) { forever(c, "HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n") },
	"endless patience":  func(c net.Conn) { forever(c, "", "HTTP/1.1 100 Continue\r\n\r\n") },
	"silence":           func(c net.Conn) { time.Sleep(limit) },
	"a body that stops": func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}") },
	"a way elsewhere":   func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 302 Found\r\nLocation: http://localhost/\r\n\r\n") },
	"another protocol": func(c net.Conn) {
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
	},
	"a fault":      func(c net.Conn) { respond(c, http.StatusBadRequest, "no\x1b[2J\r\nway") },
	"a deep fault": func(c net.Conn) { respond(c, http.StatusBadRequest, strings.Repeat("[", 60<<10)) },
}

func respond(c net.Conn, status int, body string) {
	fmt.Fprintf(c, "HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

func forever(c net.Conn, first, then string) {
	block := strings.Repeat(then, 4<<10)
	_, err := fmt.Fprint(c, first)
	for err == nil {
		_, err = fmt.Fprint(c, block)
	}
}

// Hostile holds every call of a monitor against bad answers: each must fail, in
// time, with an error that is short and harmless to print.
func Hostile(t *testing.T, system func(vmm.Dial) vmm.Monitor) {
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener := listen(t)
			go serve(listener, answer)
			eachCall(t, system(dialer(listener)))
		})
	}
	t.Run("no socket", func(t *testing.T) {
		listener := listen(t)
		dial := dialer(listener)
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		eachCall(t, system(dial))
	})
}

func serve(listener net.Listener, answer func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				answer(conn)
			}
		}()
	}
}

func eachCall(t *testing.T, m vmm.Monitor) {
	defer m.Close()
	for name, call := range map[string]func(context.Context) error{
		"hello": m.Hello, "pause": m.Pause, "resume": m.Resume,
		"save": func(ctx context.Context) error { return m.Save(ctx, vmm.State{}) },
		"load": func(ctx context.Context) error { return m.Load(ctx, vmm.State{}) },
		"boot": func(ctx context.Context) error { return m.Boot(ctx, vmm.Hardware{MemoryMiB: 128, CPUs: 1}, "quiet") },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		began := time.Now()
		err := call(ctx)
		cancel()
		if took := time.Since(began); took > limit {
			t.Errorf("%s took %v", name, took)
		}
		if err == nil {
			t.Errorf("%s: nothing failed", name)
			continue
		}
		if text := err.Error(); len(text) > 2<<10 || strings.ContainsAny(text, "\x1b\r\n\x00") {
			t.Errorf("%s: not to be printed: %.200q", name, text)
		}
	}
}

// Refusal wants the words of a monitor in the error of a call that it refuses.
func Refusal(t *testing.T, err error, words string) {
	t.Helper()
	if sandbox.ClassOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(), words) {
		t.Errorf("class %v: %v\nwant %q", sandbox.ClassOf(err), err, words)
	}
}
