package vsock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Any stands for every number and every port.
	Any = unix.VMADDR_CID_ANY
	// Host is the number by which a machine reaches its host.
	Host = unix.VMADDR_CID_HOST

	backlog = 128
)

// Addr is one end of a connection.
type Addr struct{ CID, Port uint32 }

// Network implements net.Addr.
func (Addr) Network() string { return "vsock" }

func (a Addr) String() string { return fmt.Sprintf("%d:%d", a.CID, a.Port) }

func (a Addr) sockaddr() unix.Sockaddr { return &unix.SockaddrVM{CID: a.CID, Port: a.Port} }

func newSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	return fd, os.NewSyscallError("socket", err)
}

// conn is a connection: a file that the runtime polls, with addresses.
type conn struct {
	*os.File
	local, remote Addr
}

var _ net.Conn = (*conn)(nil)

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.File.Read(b)
	return n, c.failure("read", err)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.File.Write(b)
	return n, c.failure("write", err)
}

// failure makes a file's error one of the network's: only from those do servers,
// as that of HTTP, learn that it was a deadline.
func (c *conn) failure(op string, err error) error {
	var file *fs.PathError
	if !errors.As(err, &file) {
		return err
	}
	return &net.OpError{Op: op, Net: c.remote.Network(), Source: c.local, Addr: c.remote, Err: file.Err}
}

func newConn(fd int, remote Addr) *conn {
	c := &conn{File: os.NewFile(uintptr(fd), "vsock:"+remote.String()), remote: remote}
	if own, err := unix.Getsockname(fd); err == nil {
		c.local = addrOf(own)
	}
	return c
}

func addrOf(sa unix.Sockaddr) Addr {
	if vm, ok := sa.(*unix.SockaddrVM); ok {
		return Addr{vm.CID, vm.Port}
	}
	return Addr{}
}

// Listener accepts connections.
type Listener struct {
	file *os.File
	addr Addr
}

var _ net.Listener = (*Listener)(nil)

// Listen listens on a port of this machine, for everybody who can reach it.
func Listen(port uint32) (*Listener, error) {
	fd, err := newSocket()
	if err != nil {
		return nil, fmt.Errorf("vsock: %w", err)
	}
	addr := Addr{Any, port}
	err = os.NewSyscallError("bind", unix.Bind(fd, addr.sockaddr()))
	if err == nil {
		err = os.NewSyscallError("listen", unix.Listen(fd, backlog))
	}
	if err != nil {
		return nil, fmt.Errorf("vsock: listen on %v: %w", addr, errors.Join(err, unix.Close(fd)))
	}
	return &Listener{os.NewFile(uintptr(fd), "vsock:"+addr.String()), addr}, nil
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	raw, err := l.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var from unix.Sockaddr
	var failure error
	err = raw.Read(func(listening uintptr) bool {
		fd, from, failure = unix.Accept4(int(listening), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		return failure != unix.EAGAIN && failure != unix.EINTR && failure != unix.ECONNABORTED
	})
	if err := errors.Join(err, os.NewSyscallError("accept", failure)); err != nil {
		return nil, fmt.Errorf("vsock: %w", err)
	}
	return newConn(fd, addrOf(from)), nil
}

// Close implements net.Listener.
func (l *Listener) Close() error { return l.file.Close() }

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.addr }

// Dial connects to a port of a machine, or of the host with its number.
func Dial(ctx context.Context, to Addr) (net.Conn, error) {
	fd, err := newSocket()
	if err != nil {
		return nil, fmt.Errorf("vsock: %w", err)
	}
	started := unix.Connect(fd, to.sockaddr())
	file := os.NewFile(uintptr(fd), "vsock:"+to.String())
	if started != nil && started != unix.EINPROGRESS {
		return nil, fmt.Errorf("vsock: connect to %v: %w", to, errors.Join(started, file.Close()))
	}
	if err := connected(ctx, file); err != nil {
		return nil, fmt.Errorf("vsock: connect to %v: %w", to, errors.Join(err, file.Close()))
	}
	c := &conn{File: file, remote: to}
	return c, nil
}

// connected waits for a connection on its way.
func connected(ctx context.Context, file *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = file.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Write(func(fd uintptr) bool {
		// An end that is not writable yet has neither failed nor connected.
		if ready, err := writable(int(fd)); err != nil || !ready {
			failure = err
			return err != nil
		}
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && code != 0 {
			err = unix.Errno(code)
		}
		failure = err
		return true
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(err, failure)
}

func writable(fd int) (bool, error) {
	polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(polled, 0)
	if err == unix.EINTR {
		return false, nil
	}
	return n > 0, err
}
