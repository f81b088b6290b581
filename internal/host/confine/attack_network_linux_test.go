package confine

import (
	"fmt"
	"net"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

var (
	noFamily   = []syscall.Errno{unix.EAFNOSUPPORT}
	noProtocol = []syscall.Errno{unix.EPROTONOSUPPORT}
	noPair     = []syscall.Errno{unix.EOPNOTSUPP}
)

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
		{"kernel events", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT, noProtocol},
		{"netfilter", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER, noProtocol},
		{"audit", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT, noProtocol},
		{"socket diagnosis", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_INET_DIAG, noProtocol},
		{"generic netlink", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC, noProtocol},
		{"multipath TCP", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, noProtocol},
		{"multipath TCP of version 6", unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, noProtocol},
		{"shared memory communications", unix.AF_INET, unix.SOCK_STREAM, 256, noProtocol},
		{"SCTP", unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP, noProtocol},
		{"DCCP", unix.AF_INET, 6, unix.IPPROTO_DCCP, noProtocol},
		{"UDP lite", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE, noProtocol},
		{"UDP lite of version 6", unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE, noProtocol},
		{"L2TP", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_L2TP, noProtocol},
		{"a raw socket of any protocol", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW, noProtocol},
		{"a unix socket with a protocol", unix.AF_UNIX, unix.SOCK_STREAM, 6, noProtocol},
		{"kernel crypto", unix.AF_ALG, unix.SOCK_SEQPACKET, 0, noFamily},
		{"bluetooth", unix.AF_BLUETOOTH, unix.SOCK_RAW, 0, noFamily},
		{"express data path", unix.AF_XDP, unix.SOCK_RAW, 0, noFamily},
		{"key management", unix.AF_KEY, unix.SOCK_RAW, 2, noFamily},
		{"tipc", unix.AF_TIPC, unix.SOCK_DGRAM, 0, noFamily},
	} {
		list = append(list, trial{s.name, func() error { return opensSocket(s.family, s.kind, s.protocol) }, s.want})
	}
	// Both sockets of a pair are made before it is asked whether the family has pairs.
	for _, family := range []int{unix.AF_INET, unix.AF_NETLINK, unix.AF_ALG, unix.AF_TIPC, unix.AF_VSOCK} {
		list = append(list, trial{fmt.Sprintf("a pair of sockets of family %d", family), func() error { return opensPair(family) }, noPair})
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

func opensPair(family int) error {
	pair, err := unix.Socketpair(family, unix.SOCK_SEQPACKET, 0)
	if err == nil {
		unix.Close(pair[0])
		unix.Close(pair[1])
	}
	return err
}

func dials(network, address string) error {
	conn, err := net.DialTimeout(network, address, patience)
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
