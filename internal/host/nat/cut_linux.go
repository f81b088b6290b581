package nat

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"golang.org/x/sys/unix"
)

// Flows are the sandbox's connections to hosts that have not ended.
func (p *Port) Flows() (flows []Flow, err error) {
	var list []*netlink.ConntrackFlow
	err = whole(func() (err error) {
		list, err = p.router.links.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("nat: connections: %w", err)
	}
	for _, f := range list {
		if p.has(f) && !ended(f) {
			flows = append(flows, flowOf(f))
		}
	}
	return flows, nil
}

// whole repeats a list that the kernel changed while it was read, a few times.
func whole(read func() error) (err error) {
	for range 5 {
		if err = read(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return err
		}
	}
	return err
}

// has says whether the kernel's entry is of a connection of the sandbox's that is not for
// the router itself.
func (p *Port) has(f *netlink.ConntrackFlow) bool {
	return p.tap.Address == addr(f.Forward.SrcIP) && p.router.gateway != addr(f.Reverse.SrcIP)
}

// ended says that the kernel remembers a connection for late packets alone.
func ended(f *netlink.ConntrackFlow) bool {
	const timeWait = 7 // TCP_CONNTRACK_TIME_WAIT; after it is that of one that was reset
	info, ok := f.ProtoInfo.(*netlink.ProtoInfoTCP)
	return ok && info.State >= timeWait
}

func addr(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

func flowOf(f *netlink.ConntrackFlow) Flow {
	return Flow{To: addr(f.Forward.DstIP), Port: f.Forward.DstPort, UDP: f.Forward.Protocol == unix.IPPROTO_UDP}
}

// cutter finds the entries that are to be forgotten.
type cutter struct {
	port *Port
	keep func(Flow) bool
	cut  []*netlink.ConntrackFlow
}

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (c *cutter) MatchConntrackFlow(f *netlink.ConntrackFlow) bool {
	if !c.port.has(f) || c.keep(flowOf(f)) {
		return false
	}
	c.cut = append(c.cut, f)
	return true
}

// Cut ends the connections that keep does not want. The kernel forgets them, so that
// their next packet is looked at as one of a new connection; and sockets of the sandbox
// are closed, so that programs there know.
func (p *Port) Cut(keep func(Flow) bool) error {
	c := &cutter{port: p, keep: keep}
	err := whole(func() error {
		_, err := p.router.links.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, c)
		return err
	})
	if err != nil {
		return fmt.Errorf("nat: cut connections: %w", err)
	}
	for _, f := range c.cut {
		p.close(f)
	}
	return nil
}

// close closes the sandbox's socket of a connection that has been forgotten already. Not
// every kernel does so.
func (p *Port) close(f *netlink.ConntrackFlow) {
	if p.sockets == nil || f.Forward.Protocol != unix.IPPROTO_TCP {
		return
	}
	own := &net.TCPAddr{IP: f.Forward.SrcIP, Port: int(f.Forward.SrcPort)}
	other := &net.TCPAddr{IP: f.Forward.DstIP, Port: int(f.Forward.DstPort)}
	if err := p.sockets.SocketDestroy(own, other); err != nil && !errors.Is(err, unix.ENOENT) {
		p.router.log.Debug("nat: a socket of a connection that was cut is open", "err", err)
	}
}
