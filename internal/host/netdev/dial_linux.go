package netdev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// DialLoopback connects to a port of the loopback in the net namespace to which there is a
// way for as long as it is used: to that of version 4 or, if nobody listens there, of
// version 6.
func DialLoopback(ctx context.Context, with func(use func(Way) error) error, port uint16) (net.Conn, error) {
	conn, err := dialIn(ctx, with, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port))
	if errors.Is(err, unix.ECONNREFUSED) {
		if six, failed := dialIn(ctx, with, netip.AddrPortFrom(netip.IPv6Loopback(), port)); failed == nil {
			return six, nil
		}
	}
	return conn, err
}

func dialIn(ctx context.Context, with func(use func(Way) error) error, to netip.AddrPort) (net.Conn, error) {
	var file *os.File
	err := with(func(way Way) (err error) {
		file, err = socketIn(way, to.Addr().Is6())
		return err
	})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := connect(ctx, file, to); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", to, err)
	}
	return net.FileConn(file)
}

// socketIn has a child make a socket in the namespace and send it.
func socketIn(way Way, six bool) (*os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("netdev: %w", os.NewSyscallError("socketpair", err))
	}
	defer unix.Close(pair[0])
	family := uintptr(unix.AF_INET)
	if six {
		family = unix.AF_INET6
	}
	err = spawn.Hidden(func() error {
		s, err := spawn.NewScript(4 << 10)
		if err != nil {
			return err
		}
		s.TellParted()
		s.Call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
		way.enter(s)
		number(s, s.Call(unix.SYS_SOCKET, family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0), inetFd)
		s.Call(unix.SYS_SENDMSG, uintptr(pair[1]), rightsMessage(s, inetFd), 0)
		s.Exit()
		return walk(s, nil)
	})
	unix.Close(pair[1])
	if err != nil {
		return nil, fmt.Errorf("netdev: %w", err)
	}
	return receive(pair[0])
}

// connect waits until the socket is connected, or the context ends.
func connect(ctx context.Context, file *os.File, to netip.AddrPort) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = file.SetWriteDeadline(time.Unix(1, 0)) }) // a file that is closed needs none
	defer stop()
	asked := false
	waited := raw.Write(func(fd uintptr) bool {
		if !asked {
			asked, err = true, unix.Connect(int(fd), socketAddress(to))
			return err != unix.EINPROGRESS
		}
		return connected(int(fd), &err)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(waited, err)
}

// connected says whether an attempt has ended, and how.
func connected(fd int, err *error) bool {
	number, failed := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	switch {
	case failed != nil:
		*err = failed
		return true
	case number != 0:
		*err = unix.Errno(number)
		return true
	}
	_, failed = unix.Getpeername(fd)
	if failed == unix.ENOTCONN {
		return false
	}
	*err = failed
	return true
}

func socketAddress(to netip.AddrPort) unix.Sockaddr {
	if to.Addr().Is6() {
		return &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	}
	return &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
}
