package drivertest

import (
	"io"
	"testing"

	"aether/sandbox"
)

func (s *suite) ports() []test {
	return []test{{"listener", s.listener}, {"nobody listens", s.nobodyListens}}
}

// shouter listens, and answers what it was sent when that has ended.
const shouter = `python3 -c '
import socket
l = socket.create_server(("127.0.0.1", 7700))
print("ready", flush=True)
while True:
    c = l.accept()[0]
    text = b""
    while part := c.recv(4096):
        text += part
    c.sendall(text.upper())
    c.close()' > /tmp/shouter 2>&1 & until [ -s /tmp/shouter ]; do sleep 0.02; done; cat /tmp/shouter`

// listener: what listens on the sandbox's own loopback is reached by way of its guest
// service, both ways to the end of each, and needs no network for that.
func (s *suite) listener(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	if b.sh(t, "command -v python3 || true") == "" {
		t.Skip("the image has no python3 to listen with")
	}
	if got := b.sh(t, shouter); got != "ready" {
		t.Fatal(got)
	}
	text := make([]byte, 300<<10)
	for i := range text {
		text[i] = 'a' + byte(i%26)
	}
	for range 2 {
		conn, err := b.Client.DialPort(s.patient(t), 7700)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = conn.Write(text); err == nil {
			err = conn.CloseWrite()
		}
		if err != nil {
			t.Error(err)
		}
		got, err := io.ReadAll(conn)
		if err != nil || len(got) != len(text) || got[27] != 'B' {
			t.Errorf("%d bytes came back: %v", len(got), err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

func (s *suite) nobodyListens(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	conn, err := b.Client.DialPort(s.patient(t), 7701)
	if err == nil {
		conn.Close()
	}
	if sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("%v", err)
	}
	if b.sh(t, "echo on") != "on" {
		t.Error("its service does not go on")
	}
}
