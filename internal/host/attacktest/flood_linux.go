package attacktest

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// Begin begins a connection to an address of version 4 and does not wait for it. With a
// window it takes no more than so many bytes at once. The descriptor is the caller's.
func Begin(to netip.AddrPort, window int) (fd int, err error) {
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	if window > 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, window); err != nil {
			unix.Close(fd)
			return -1, err
		}
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
	if err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Close closes what Begin began.
func Close(fd int) { unix.Close(fd) }

// Connected says whether a connection that Begin began was made.
func Connected(fd int) bool {
	_, err := unix.Getpeername(fd)
	return err == nil
}

// Deaf is a listener of version 4 that takes one connection and leaves all others in the
// making.
func Deaf(at netip.AddrPort) (fd int, err error) {
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}); err == nil {
		err = unix.Listen(fd, 0)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
