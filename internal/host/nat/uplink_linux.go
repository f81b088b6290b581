package nat

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"aether/sandbox"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"

	"golang.org/x/sys/unix"
)

// uplinksFrom is where programs have their few addresses on the host: in a range for
// measurements, which no host has (RFC 2544). Each takes the next blockBits that nobody
// uses, and the name of its cable says which: no two can have the same.
var uplinksFrom = netip.MustParsePrefix("198.19.0.0/16")

const (
	blockBits  = 29
	maxBlocks  = 1 << (blockBits - 16)
	cableName  = "aether-nat%d"
	routerEnd  = "up"
	plainMTU   = 1500
	hostPlace  = 1 // places of addresses in a block
	localPlace = 2
	outerPlace = 3
)

// uplink is the cable between the router and the host, and the host's table.
type uplink struct {
	name   string
	number int
	block  netip.Prefix
	mtu    int
	tables *nftables.Conn
	table  *nftables.Table
}

// at is one of the block's addresses.
func (u *uplink) at(place byte) netip.Addr {
	a := u.block.Addr().As4()
	a[3] += place
	return netip.AddrFrom4(a)
}

func blockOf(number int) netip.Prefix {
	a := uplinksFrom.Addr().As4()
	offset := number << (32 - blockBits)
	a[2], a[3] = byte(offset>>8), byte(offset)
	return netip.PrefixFrom(netip.AddrFrom4(a), blockBits)
}

// connect makes the cable, from the router's side, and the host's table.
func (u *uplink) connect(router *netlink.Handle) error {
	host, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer host.Close()
	var routes []netlink.Route
	err = whole(func() (err error) { routes, err = host.RouteList(nil, netlink.FAMILY_V4); return err })
	if err != nil {
		return fmt.Errorf("the host's routes: %w", err)
	}
	if u.mtu, err = mayForward(host, routes); err != nil {
		return err
	}
	if err := u.plug(router, routes); err != nil {
		return err
	}
	if err := u.configureHost(host); err != nil {
		return err
	}
	return u.protect()
}

// mayForward refuses where the host does not forward what comes back: that is the host's
// to decide. It gives the least MTU of the ways out.
func mayForward(host *netlink.Handle, routes []netlink.Route) (mtu int, err error) {
	for _, r := range routes {
		if r.Dst != nil && !(r.Dst.IP.IsUnspecified() && netmaskBits(r) == 0) || r.LinkIndex == 0 {
			continue
		}
		link, err := host.LinkByIndex(r.LinkIndex)
		if err != nil {
			return 0, err
		}
		name := link.Attrs().Name
		text, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + name + "/forwarding")
		if err != nil {
			return 0, err
		}
		if text[0] != '1' {
			return 0, &sandbox.Error{Class: sandbox.Unavailable, Field: "network.mode", Reason: "this host does not forward what comes by " + name,
				Remedy: "sysctl net.ipv4.conf." + name + ".forwarding=1 lets it, or use the network egress"}
		}
		if m := link.Attrs().MTU; mtu == 0 || m < mtu {
			mtu = m
		}
	}
	if mtu == 0 {
		mtu = plainMTU
	}
	return mtu, nil
}

func netmaskBits(r netlink.Route) int {
	ones, _ := r.Dst.Mask.Size()
	return ones
}

// plug makes the cable with the first addresses that nobody has.
func (u *uplink) plug(router *netlink.Handle, routes []netlink.Route) error {
	here, err := os.Open("/proc/thread-self/ns/net") // not self: the first thread may be on a visit elsewhere
	if err != nil {
		return err
	}
	defer here.Close()
	for i := range maxBlocks {
		u.number = (os.Getpid() + i) % maxBlocks
		if u.block = blockOf(u.number); used(u.block, routes) {
			continue
		}
		u.name = fmt.Sprintf(cableName, u.number)
		cable := netlink.NewVeth(netlink.LinkAttrs{Name: routerEnd, MTU: u.mtu})
		cable.PeerName, cable.PeerNamespace, cable.PeerMTU = u.name, netlink.NsFd(here.Fd()), uint32(u.mtu)
		if err := router.LinkAdd(cable); !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return errors.New("all addresses for programs are used")
}

func used(block netip.Prefix, routes []netlink.Route) bool {
	for _, r := range routes {
		if r.Dst == nil || netmaskBits(r) == 0 {
			continue
		}
		if addr, ok := netip.AddrFromSlice(r.Dst.IP.To4()); ok && block.Overlaps(netip.PrefixFrom(addr, netmaskBits(r))) {
			return true
		}
	}
	return false
}

// configureHost brings the host's end up. What is set is about that device alone.
func (u *uplink) configureHost(host *netlink.Handle) error {
	for _, s := range []setting{{"ipv4/conf/" + u.name + "/forwarding", "1", false}, {"ipv6/conf/" + u.name + "/disable_ipv6", "1", true}} {
		if err := s.write(); err != nil {
			return err
		}
	}
	link, err := host.LinkByName(u.name)
	if err != nil {
		return err
	}
	return plugged(host, link, netip.PrefixFrom(u.at(hostPlace), blockBits))
}

// activate is for the host's end, once the router's is up.
func (u *uplink) activate() error {
	host, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer host.Close()
	link, err := host.LinkByName(u.name)
	if err != nil {
		return err
	}
	return activate(host, link.Attrs().Index)
}

// plugged gives a device its addresses and brings it up.
func plugged(h *netlink.Handle, link netlink.Link, addresses ...netip.Prefix) error {
	for _, a := range addresses {
		if err := h.AddrAdd(link, &netlink.Addr{IPNet: ipNet(a)}); err != nil {
			return fmt.Errorf("address %v of %s: %w", a, link.Attrs().Name, err)
		}
	}
	return h.LinkSetUp(link)
}

// activate has the end of a cable send from now on, whose other end has just come up. The
// kernel does so by itself, but later, from a queue of work, and drops what is sent before:
// the answer to a sandbox's first question, on a busy host.
func activate(h *netlink.Handle, link int) error {
	err := h.QdiscReplace(&netlink.GenericQdisc{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link, Parent: netlink.HANDLE_ROOT}, QdiscType: "noqueue"})
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil // a kernel without packet schedulers, which activates in its own time
	}
	if err != nil {
		return fmt.Errorf("activate a cable: %w", err)
	}
	return nil
}

// protect makes the host's table: what comes from the router is only what it should, and
// what is not for the host itself leaves with the host's address.
func (u *uplink) protect() (err error) {
	if u.tables, u.table, err = ownTable(u.name); err != nil {
		return err
	}
	b := &builder{tables: u.tables, table: u.table}
	b.chain("arriving", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, rawPriority, nftables.ChainPolicyAccept)
	b.rule("arriving", all(from(u.name), outside(sourceOffset, u.block), drop))
	b.rule("arriving", all(from(u.name), within(sourceOffset, single(u.at(outerPlace))), local(), drop))
	b.chain("host", nftables.ChainTypeFilter, nftables.ChainHookInput, filterPriority, nftables.ChainPolicyAccept)
	b.rule("host", all(from(u.name), within(sourceOffset, single(u.at(localPlace))), accept))
	b.rule("host", all(from(u.name), drop))
	b.chain("passing", nftables.ChainTypeFilter, nftables.ChainHookForward, filterPriority, nftables.ChainPolicyAccept)
	b.rule("passing", all(to(u.name), state(expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED), accept))
	b.rule("passing", all(to(u.name), drop))
	b.chain("leaving", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, sourcePriority, nftables.ChainPolicyAccept)
	b.rule("leaving", all(within(sourceOffset, u.block), notTo(u.name), []expr.Any{&expr.Masq{}}))
	return b.send()
}

// others are the chains of others that drop what is forwarded unless one of their rules
// says otherwise: no table can accept what another drops.
func (u *uplink) others() (names []string, err error) {
	chains, err := u.tables.ListChains()
	for _, c := range chains {
		forwards := c.Hooknum != nil && *c.Hooknum == *nftables.ChainHookForward && c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop
		if forwards && c.Table.Name != u.table.Name {
			names = append(names, c.Table.Name+" "+c.Name)
		}
	}
	return names, err
}

// close removes the host's table. The cable goes with its other end.
func (u *uplink) close() error {
	if u.tables == nil {
		return nil
	}
	u.tables.DelTable(u.table)
	return errors.Join(u.tables.Flush(), u.tables.CloseLasting())
}
