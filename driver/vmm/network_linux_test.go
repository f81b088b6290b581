package vmm

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"aether/sandbox"
)

// TestStreamIsHandedOver: the descriptor of a monitor's socket, with all that the guest
// sends from the first packet on, also what came with its answer.
func TestStreamIsHandedOver(t *testing.T) {
	const packets = "packets of the guest"
	asked := make(chan string, 1)
	m := &machine{engine: &engine{}, line: fakeVsock(t, func(_ string, conn net.Conn) {
		if _, err := io.WriteString(conn, "OK 1\n"); err != nil {
			t.Error(err)
		}
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		asked <- string(body)
		if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: aether-packets\r\n\r\n"+packets); err != nil {
			t.Error(err)
		}
	})}
	const device = `{"name":"eth0"}`
	file, err := m.openStream(t.Context(), []byte(device))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := <-asked; got != device {
		t.Errorf("the guest is asked for %s", got)
	}
	if got, err := io.ReadAll(file); err != nil || string(got) != packets {
		t.Errorf("its packets are %q, %v", got, err)
	}
	if len(m.line.(*guestDialer).open) > 0 {
		t.Error("the connection is this program's too")
	}
}

// TestGuestWithoutDevices: whose kernel has none is told so, and one that answers badly is
// not waited for.
func TestGuestWithoutDevices(t *testing.T) {
	for answer, class := range map[string]sandbox.Class{
		"HTTP/1.1 501 Not Implemented\r\nContent-Length: 2\r\n\r\nno": sandbox.Unsupported,
		"HTTP/1.1 422 Unprocessable Entity\r\n\r\nno":                 sandbox.Internal,
		"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno":       sandbox.Unsupported,
		"HTTP/1.1 200 OK\r\n\r\n":                                     sandbox.Internal,
		"\x00\x00":                                                    sandbox.Internal,
	} {
		m := &machine{engine: &engine{}, line: fakeVsock(t, func(_ string, conn net.Conn) {
			_, _ = io.WriteString(conn, "OK 1\n")
			if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
			}
			_, _ = io.WriteString(conn, answer)
		})}
		if file, err := m.openStream(t.Context(), nil); err == nil || sandbox.ClassOf(err) != class {
			t.Errorf("%q: %v, %v", answer, file, err)
		}
	}
}
