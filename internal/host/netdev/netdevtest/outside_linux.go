package netdevtest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"aether/internal/host/netdev"

	"github.com/vishvananda/netlink"

	"golang.org/x/sys/unix"
)

// Addresses of the two ends of the cable to Outside.
const (
	HostAddress    = "192.0.2.2"
	outsideAddress = "192.0.2.1"
	HostDevice     = "eth0"
)

// Outside is a net namespace that stands for the Internet: what is beyond the host, by
// its default route. It ends with Close.
type Outside struct {
	namespace *netdev.Namespace
	links     *netlink.Handle
}

// NewOutside makes one in which every address of some prefixes is found, for a host that
// is a world of Main's and forwards.
func NewOutside(prefixes ...string) (_ *Outside, err error) {
	namespace, err := netdev.NewNamespace()
	if err != nil {
		return nil, err
	}
	o := &Outside{namespace: namespace}
	if err := namespace.Do(func() (err error) {
		if o.links, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return err
		}
		return prepare(prefixes)
	}); err != nil {
		return nil, err
	}
	return o, o.connect()
}

func (o *Outside) connect() error {
	here, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return err
	}
	defer here.Close()
	cable := netlink.NewVeth(netlink.LinkAttrs{Name: "host"})
	cable.PeerName, cable.PeerNamespace = HostDevice, netlink.NsFd(here.Fd())
	if err := o.links.LinkAdd(cable); err != nil {
		return fmt.Errorf("the cable to the Internet: %w", err)
	}
	host, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer host.Close()
	if err := errors.Join(up(o.links, "host", outsideAddress), up(host, HostDevice, HostAddress), activate(o.links, "host")); err != nil {
		return err
	}
	if err := host.RouteAdd(&netlink.Route{Gw: net.ParseIP(outsideAddress)}); err != nil {
		return err
	}
	return Forward(true)
}

func up(h *netlink.Handle, name, address string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return err
	}
	if err := h.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(address), Mask: net.CIDRMask(24, 32)}}); err != nil {
		return err
	}
	return h.LinkSetUp(link)
}

// activate has the end that came up first send from now on: the kernel would do so later.
func activate(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return err
	}
	return h.QdiscReplace(&netlink.GenericQdisc{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Parent: netlink.HANDLE_ROOT}, QdiscType: "noqueue"})
}

// Forward has the host forward what comes from outside, or not.
func Forward(yes bool) error {
	value := "0"
	if yes {
		value = "1"
	}
	return os.WriteFile("/proc/sys/net/ipv4/conf/"+HostDevice+"/forwarding", []byte(value), 0)
}

// Do runs fn there: sockets that it makes are outside.
func (o *Outside) Do(fn func() error) error { return o.namespace.Do(fn) }

// Find adds an address to those of the host itself.
func Find(prefix string) error {
	links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer links.Close()
	loopback, err := links.LinkByName("lo")
	if err != nil {
		return err
	}
	p := netip.MustParsePrefix(prefix)
	return links.AddrAdd(loopback, &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}})
}

// Close ends it, and with it the host's device.
func (o *Outside) Close() {
	if link, err := o.links.LinkByName("host"); err == nil {
		_ = o.links.LinkDel(link) // it goes with the namespace, later
	}
	o.links.Close()
	o.namespace.Close()
}
