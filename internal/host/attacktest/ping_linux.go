package attacktest

import (
	"errors"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Ping sends an echo request, by a socket for that or, where there is none, a raw one, and
// waits for the answer.
func Ping(to netip.Addr, within time.Duration) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP); err != nil {
			return os.NewSyscallError("socket", err)
		}
	}
	defer unix.Close(fd)
	wait := unix.NsecToTimeval(within.Nanoseconds())
	request := []byte{8, 0, 0, 0, 0, 7, 0, 1}
	sum := ^(uint16(8)<<8 + 7 + 1)
	request[2], request[3] = byte(sum>>8), byte(sum)
	err = errors.Join(
		os.NewSyscallError("setsockopt", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait)),
		os.NewSyscallError("sendto", unix.Sendto(fd, request, 0, &unix.SockaddrInet4{Addr: to.As4()})))
	if err != nil {
		return err
	}
	for answer, end := make([]byte, 512), time.Now().Add(within); time.Now().Before(end); {
		n, _, err := unix.Recvfrom(fd, answer, 0)
		if err != nil {
			return os.NewSyscallError("recvfrom", err)
		}
		if n >= 8 && answer[0] == 0 || n >= 28 && answer[0]>>4 == 4 && answer[20] == 0 {
			return nil
		}
	}
	return errors.New("no answer")
}
