package vsock

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLoopback speaks to this very machine, where its kernel can.
func TestLoopback(t *testing.T) {
	const port = 0x61657468
	l, err := Listen(port)
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Skipf("this kernel has no vsock: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := Dial(ctx, Addr{unix.VMADDR_CID_LOCAL, port})
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.ETIMEDOUT) {
		t.Skipf("this kernel has no loopback of vsock: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read beyond its deadline: %v", err)
	}
}

func TestDialGivesUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if conn, err := Dial(ctx, Addr{12345, 1}); err == nil {
		conn.Close()
		t.Error("a machine that does not exist answered")
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// TestDeadlineIsANetworkError: servers of HTTP end a connection for good whose
// reads fail in any other way when they are interrupted.
func TestDeadlineIsANetworkError(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	c := &conn{File: read}
	defer c.Close()
	if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	_, err = c.Read(make([]byte, 1))
	if failure, ok := err.(net.Error); !ok || !failure.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%#v", err)
	}
	if err := errors.Join(c.SetReadDeadline(time.Time{}), write.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the end: %v", err)
	}
}
