package checkpoint_test

import (
	"net"
	"os"
	"testing"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// visit connects to a port of the loopback of a cell from outside of it, as whoever
// reaches into one does.
func visit(t *testing.T, cell int, port int) net.Conn {
	t.Helper()
	thread, err := spawn.NewThread(func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer thread.Close()
	fd := -1
	if err := thread.Do(func() error {
		pidfd, err := unix.PidfdOpen(cell, 0)
		if err != nil {
			return err
		}
		defer unix.Close(pidfd)
		if err = unix.Setns(pidfd, unix.CLONE_NEWNET); err == nil {
			fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "visitor")
	defer file.Close()
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestForkWithVisitors: a connection that came from outside of the cell stays with the
// source, though it is one over its loopback.
func TestForkWithVisitors(t *testing.T) {
	s := newScene(t)
	source := s.start(t, `
import socket, sys
l = socket.create_server(("127.0.0.1", 8080))
print("primed", flush=True)
sys.stdin.readline()
c, _ = l.accept()
print("accepted", flush=True)
for line in sys.stdin:
    try: print(c.recv(9).decode(), flush=True)
    except OSError as e: print(type(e).__name__, flush=True)
`)
	source.say(t)
	visitor := visit(t, source.cell.Pid(), 8080)
	source.hear(t, "accepted")
	child, err := source.fork(t, s)
	if err != nil {
		t.Fatal(err)
	}
	child.say(t)
	child.hear(t, "ConnectionResetError")
	if _, err := visitor.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	source.say(t)
	source.hear(t, "hello")
	visit(t, child.cell.Pid(), 8080) // which the child, too, listens for
}
