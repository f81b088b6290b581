package nat

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"aether/internal/host/netdev"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"

	"golang.org/x/sys/unix"
)

// Port is a sandbox's place at the router.
type Port struct {
	router     *Router
	name       string // of the router's device, and in those of chains and sets
	tap        netdev.Tap
	link       int
	generation int
	sets       []*nftables.Set // of the matches that have one
	sockets    *netlink.Handle // of the sandbox's namespace
}

const (
	// Questions about names that are being answered at once, and connections in a second,
	// with how many more may come together: what has ended stays in the kernel's table
	// for a while, which all of the host share.
	maxQuestions  = 256
	newConnection = 200
	newBurst      = 1000
	// leastBurst is the least that a rate lets pass together: less than a few packets of
	// the largest kind would let none pass.
	leastBurst = 256 << 10
)

// Join makes a sandbox's device in its namespace, and a place for it here. Close must
// follow.
func (r *Router) Join(n *netdev.Namespace, tap netdev.Tap, rules Rules) (_ *Port, err error) {
	tap.MTU = r.uplink.mtu
	p := &Port{router: r, name: portName(tap.Address), tap: tap}
	if err := p.plug(n); err != nil {
		return nil, errors.Join(fmt.Errorf("nat: %w", err), p.unplug())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := p.enter(rules); err != nil {
		return nil, errors.Join(fmt.Errorf("nat: rules: %w", err), p.unplug())
	}
	return p, nil
}

// portName is a device's, by the address that its sandbox has.
func portName(a netip.Addr) string {
	b := a.As4()
	return fmt.Sprintf("box%d-%d-%d", b[1], b[2], b[3])
}

// plug makes the cable, with the sandbox's end in its namespace.
func (p *Port) plug(n *netdev.Namespace) error {
	cable := netlink.NewVeth(netlink.LinkAttrs{Name: p.name, MTU: p.tap.MTU, HardwareAddr: p.tap.GatewayHardware[:]})
	cable.PeerName, cable.PeerNamespace, cable.PeerMTU = p.tap.Name, netlink.NsFd(n.Fd()), uint32(p.tap.MTU)
	links := p.router.links
	if err := links.LinkAdd(cable); err != nil {
		return fmt.Errorf("the sandbox's cable: %w", err)
	}
	link, err := links.LinkByName(p.name)
	if err != nil {
		return err
	}
	p.link = link.Attrs().Index
	if err := links.LinkSetUp(link); err != nil {
		return err
	}
	if err := p.tap.Configure(n.Way()); err != nil {
		return err
	}
	if err := activate(links, p.link); err != nil {
		return err
	}
	address := p.tap.Address.AsSlice()
	if err := links.RouteAdd(&netlink.Route{LinkIndex: p.link, Scope: netlink.SCOPE_LINK, Dst: ipNet(single(p.tap.Address))}); err != nil {
		return fmt.Errorf("the way to the sandbox: %w", err)
	}
	if err := links.NeighSet(&netlink.Neigh{LinkIndex: p.link, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT, IP: address, HardwareAddr: p.tap.Hardware[:]}); err != nil {
		return fmt.Errorf("the sandbox as neighbour: %w", err)
	}
	return n.Do(func() (err error) {
		p.sockets, err = netlink.NewHandle(unix.NETLINK_INET_DIAG)
		return err
	})
}

// enter makes the sandbox known. The caller holds the router's lock, as for leave.
func (p *Port) enter(rules Rules) error {
	b := p.router.batch()
	for _, chain := range p.chains() {
		b.inner(chain)
	}
	p.write(b, rules)
	for _, m := range p.memberships() {
		b.put(m.set, m.elements)
	}
	return b.send()
}

// leave takes it back.
func (p *Port) leave() error {
	b := p.router.batch()
	for _, m := range p.memberships() {
		b.take(m.set, m.elements)
	}
	p.erase(b)
	for _, chain := range slices.Backward(p.chains()) {
		b.remove(chain)
	}
	return b.send()
}

// chains are the sandbox's, those first that others go to.
func (p *Port) chains() []string { return []string{p.rates(), p.admits(), p.asks(), p.name} }

func (p *Port) rates() string  { return p.name + "-rate" }
func (p *Port) admits() string { return p.name + "-admit" }
func (p *Port) asks() string   { return p.name + "-ask" }

type membership struct {
	set      *nftables.Set
	elements []nftables.SetElement
}

func (p *Port) memberships() []membership {
	r, device := p.router, deviceName(p.name)
	goes := func(kind expr.VerdictKind, chain string) []nftables.SetElement {
		return []nftables.SetElement{{Key: device, VerdictData: &expr.Verdict{Kind: kind, Chain: chain}}}
	}
	return []membership{
		{r.sources, []nftables.SetElement{{Key: slices.Concat(device, p.tap.Address.AsSlice())}}},
		{r.sends, goes(expr.VerdictGoto, p.name)},
		{r.asks, goes(expr.VerdictGoto, p.asks())},
		{r.gets, goes(expr.VerdictJump, p.rates())},
	}
}

// Set puts other rules in the place of those that there are, at once. An error leaves
// them.
func (p *Port) Set(rules Rules) error {
	r := p.router
	r.mu.Lock()
	defer r.mu.Unlock()
	before, b := p.sets, r.batch()
	p.erase(b)
	p.write(b, rules)
	if err := b.send(); err != nil {
		p.sets = before
		return fmt.Errorf("nat: rules: %w", err)
	}
	return nil
}

// Change changes the addresses of matches, all of which have a set. Those that are added
// are not there, and those that are removed are.
func (p *Port) Change(changes []Change) error {
	r := p.router
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.batch()
	for _, c := range changes {
		set := p.sets[c.Match]
		if len(c.Add) > 0 {
			b.put(set, elements(c.Add))
		}
		if len(c.Remove) > 0 {
			b.take(set, elements(c.Remove))
		}
	}
	if err := b.send(); err != nil {
		return fmt.Errorf("nat: addresses: %w", err)
	}
	return nil
}

// Close takes the sandbox off the network. Its device goes.
func (p *Port) Close() error {
	err := p.unplug()
	r := p.router
	r.mu.Lock()
	err = errors.Join(err, p.leave())
	r.mu.Unlock()
	return errors.Join(err, p.Cut(func(Flow) bool { return false })) // another will have its address
}

func (p *Port) unplug() (err error) {
	if p.link != 0 {
		if err = p.router.links.LinkDel(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Index: p.link}}); errors.Is(err, unix.ENODEV) {
			err = nil // it went with the sandbox's namespace
		}
	}
	if p.sockets != nil {
		p.sockets.Close()
		p.sockets = nil
	}
	return err
}

// try has the kernel take every kind of rule, of a sandbox that there is not.
func (r *Router) try() error {
	none := netip.AddrFrom4([4]byte{198, 18, 0, 2})
	p := &Port{router: r, name: "trial", tap: netdev.Tap{Address: none}}
	r.mu.Lock()
	defer r.mu.Unlock()
	rules := Rules{Matches: []Match{{First: 1, Last: 2, Addresses: []netip.Addr{none}}, {UDP: true, Prefix: single(none)}}, Public: true, Connections: 1, Rate: 1024}
	if err := p.enter(rules); err != nil {
		return fmt.Errorf("the rules of a sandbox: %w", err)
	}
	return p.leave()
}
