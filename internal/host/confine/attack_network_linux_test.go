package confine

import (
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var noFamily = []syscall.Errno{unix.EAFNOSUPPORT}

// networkTrials look for a way out by sockets.
func networkTrials(f facts) []trial {
	list := []trial{
		{"another interface", anotherInterface, nil},
		{"the host's loopback", func() error { return dials("tcp4", "127.0.0.1:"+strconv.Itoa(f.Port)) }, []syscall.Errno{unix.ECONNREFUSED}},
		{"the host's abstract sockets", func() error { return dials("unix", "@"+f.Abstract) }, []syscall.Errno{unix.ECONNREFUSED}},
		{"the world", func() error { return dials("tcp4", "192.0.2.1:80") }, []syscall.Errno{unix.ENETUNREACH}},
		{"take loopback down", loopbackDown, noPermission},
	}
	for _, s := range []struct {
		name                   string
		family, kind, protocol int
		want                   []syscall.Errno
	}{
		{"a raw socket", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP, noPermission},
		{"a raw v6 socket", unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6, noPermission},
		{"a packet socket", unix.AF_PACKET, unix.SOCK_RAW, 0, noFamily},
		{"a vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0, noFamily},
		{"kernel events", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT, noFamily},
		{"netfilter", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER, noFamily},
		{"audit", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT, noFamily},
		{"socket diagnosis", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_INET_DIAG, noFamily},
		{"kernel crypto", unix.AF_ALG, unix.SOCK_SEQPACKET, 0, noFamily},
		{"bluetooth", unix.AF_BLUETOOTH, unix.SOCK_RAW, 0, noFamily},
		{"express data path", unix.AF_XDP, unix.SOCK_RAW, 0, noFamily},
		{"key management", unix.AF_KEY, unix.SOCK_RAW, 2, noFamily},
		{"tipc", unix.AF_TIPC, unix.SOCK_DGRAM, 0, noFamily},
	} {
		list = append(list, trial{s.name, func() error { return opensSocket(s.family, s.kind, s.protocol) }, s.want})
	}
	return list
}

func opensSocket(family, kind, protocol int) error {
	fd, err := unix.Socket(family, kind, protocol)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func dials(network, address string) error {
	conn, err := net.DialTimeout(network, address, time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}

func anotherInterface() error {
	list, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range list {
		if i.Name != "lo" {
			return nil
		}
	}
	return errHeld
}

func loopbackDown() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("ifreq: %w", err)
	}
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}
