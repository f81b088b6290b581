package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// readInet keeps a socket of the internet.
func (p *Tracee) readInet(k *SharedObjects, s *SocketState, fd, number int) error {
	switch s.Type {
	case unix.SOCK_STREAM:
		return p.readTCP(k, s, fd, number)
	case unix.SOCK_DGRAM:
		if n, err := unix.IoctlGetInt(fd, unix.SIOCINQ); err != nil || n > 0 {
			return p.refuseSocket(number, true, "with datagrams that were not received yet")
		}
		return p.checkMulticast(number)
	}
	return p.refuseSocket(number, false, "that sees raw packets")
}

// readTCP keeps a socket that listens, that is fresh, or whose connection is over or leads
// out of the cell. The latter is over, too, in whoever is made of the checkpoint: its other
// end would have to be two.
func (p *Tracee) readTCP(k *SharedObjects, s *SocketState, fd, number int) error {
	if s.Protocol != unix.IPPROTO_TCP {
		return p.refuseSocket(number, false, "of another protocol than TCP")
	}
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	switch info.State {
	case unix.BPF_TCP_CLOSE:
		s.Reset = info.Segs_out > 0 // a fresh one has sent nothing
		s.Remote = nil
	case unix.BPF_TCP_LISTEN:
		s.Listens, s.Backlog, s.Remote = true, int(info.Sacked), nil
		if info.Unacked > 0 {
			return p.refuseSocket(number, true, "that listens, with %d connections to accept", info.Unacked)
		}
	default:
		if s.Reset = s.leadsOut(); !s.Reset {
			return k.decideLater(p, s, p.refuseSocket(number, false, "of an established TCP connection within the cell, or of the host's network"))
		}
	}
	return nil
}

// checkMulticast refuses memberships in groups, which do not say whose they are.
func (p *Tracee) checkMulticast(number int) error {
	for name, joined := range map[string]func(string) bool{"igmp": joinedGroups, "igmp6": joinedGroups6} {
		text, err := readProc(fmt.Sprintf("/proc/%d/net/%s", p.PID, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // the kernel does without
		}
		if err != nil {
			return err
		}
		if joined(string(text)) {
			return p.refuseSocket(number, false, "of UDP while some socket is a member of a multicast group")
		}
	}
	return nil
}

// deviceAddress is, in Local, the address of the source's network device, to which the
// socket is bound; nil for any other. No two cells have the same, and no host has one of
// that range.
func (s *SocketState) deviceAddress() []byte {
	raw := hostOf(s.Family, s.Local)
	if addr, ok := netip.AddrFromSlice(raw); ok && devices.Contains(addr.Unmap()) {
		return raw
	}
	return nil
}

// hostOf is, in the address of a socket of the internet, that of its host.
func hostOf(family int, address []byte) []byte {
	switch {
	case family == unix.AF_INET && len(address) == unix.SizeofSockaddrInet4:
		return address[4:8]
	case family == unix.AF_INET6 && len(address) == unix.SizeofSockaddrInet6:
		return address[8:24]
	}
	return nil
}

// leadsOut says that a connection is by the cell's own device and to somebody else. A cell
// that talks to itself by the address of its device does not leave itself.
func (s *SocketState) leadsOut() bool {
	own := s.deviceAddress()
	return own != nil && !bytes.Equal(own, hostOf(s.Family, s.Remote))
}

// devices are the addresses of network devices of sandboxes.
var devices = netip.PrefixFrom(netip.MustParseAddr(sandbox.Gateway), 16).Masked()

// anywhere is Local as another cell can have it: what was bound to the address of the
// source's device is bound to all of the new cell's, and has that of its device as soon
// as it is connected.
func (s *SocketState) anywhere() []byte {
	if s.deviceAddress() == nil {
		return s.Local
	}
	moved := *s
	moved.Local = slices.Clone(s.Local)
	clear(moved.deviceAddress())
	return moved.Local
}
