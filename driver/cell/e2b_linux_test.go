package cell_test

import (
	"io"
	"net"
	"testing"

	"aether/guest/e2etest"
	"aether/sandbox"
)

// TestOfficialE2BClient drives a cell with a client that nobody here wrote.
func TestOfficialE2BClient(t *testing.T) {
	instance := newCell(t, sandbox.Spec{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go forward(t, listener, instance)
	e2etest.Run(t, "http://"+listener.Addr().String(), "/home/user/e2b")
}

// forward joins every connection to one of the cell's guest service.
func forward(t *testing.T, listener net.Listener, instance sandbox.Instance) {
	for {
		outside, err := listener.Accept()
		if err != nil {
			return // the test is over
		}
		inside, err := instance.Dial(t.Context())
		if err != nil {
			outside.Close()
			continue
		}
		go join(outside, inside)
		go join(inside, outside)
	}
}

func join(to, from net.Conn) {
	defer to.Close()
	io.Copy(to, from)
}
