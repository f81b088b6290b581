package nat

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"sync"

	"aether/internal/host/netdev"
	"aether/sandbox"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"

	"golang.org/x/sys/unix"
)

// Router is the net namespace between the sandboxes of this program and the host.
type Router struct {
	log       *slog.Logger
	gateway   netip.Addr
	namespace *netdev.Namespace
	links     *netlink.Handle
	uplink    uplink

	mu     sync.Mutex // held while a batch is put together and sent
	tables *nftables.Conn
	table  *nftables.Table
	// sources are the devices with the addresses that may come by them. The others say by
	// a sandbox's device which chain decides about what it sends, asks and is sent.
	sources, sends, asks, gets *nftables.Set
}

// Names of chains that all sandboxes share.
const (
	denyChain   = "deny"
	publicChain = "public"
	tableName   = "aether"
)

// Why a connection was allowed: its address was, or it is public.
const (
	markLocal = 1
	markOuter = 2
)

// quic is the port at which HTTP is spoken over UDP, by names that nobody can see.
const (
	quic    = 443
	dnsPort = 53
)

// Open makes a router, whose sandboxes find it, and the name server in it, at an address.
// What is special is an address that is not public. Close must follow.
//
// Errors: Unavailable where this user, kernel or host has no room for it.
func Open(log *slog.Logger, gateway netip.Addr, special []netip.Prefix) (*Router, error) {
	r := &Router{log: log, gateway: gateway}
	if err := r.open(special); err != nil {
		return nil, errors.Join(refusal(err), r.Close())
	}
	return r, nil
}

func refusal(err error) error {
	e := &sandbox.Error{Class: sandbox.Unavailable, Field: "network.mode", Reason: "this kernel cannot make the router", Remedy: "use the network egress", Err: err}
	switch {
	case sandbox.ClassOf(err) != sandbox.Internal:
		return err
	case errors.Is(err, fs.ErrPermission):
		e.Reason = "this user may not make a router"
	}
	return e
}

func (r *Router) open(special []netip.Prefix) (err error) {
	if r.namespace, err = netdev.NewNamespace(); err != nil {
		return err
	}
	if err := r.namespace.Do(r.prepare); err != nil {
		return err
	}
	if err := r.uplink.connect(r.links); err != nil {
		return fmt.Errorf("the cable to the host: %w", err)
	}
	others, err := r.uplink.others()
	if err != nil {
		return fmt.Errorf("the host's tables: %w", err)
	}
	if len(others) > 0 {
		r.log.Warn("network: another's rules drop what is forwarded unless they say otherwise", "chains", others, "device", r.uplink.name)
	}
	if err := r.connectHost(); err != nil {
		return err
	}
	if err := r.build(special); err != nil {
		return fmt.Errorf("the router's table: %w", err)
	}
	return r.try()
}

// prepare is done in the namespace, and what it opens belongs there.
func (r *Router) prepare() (err error) {
	for _, s := range []setting{{"ipv6/conf/all/disable_ipv6", "1", true}, {"ipv6/conf/default/disable_ipv6", "1", true}, {"ipv4/conf/all/rp_filter", "1", false},
		{"ipv4/ip_forward", "1", false}, {"ipv4/conf/all/send_redirects", "0", false}, {"ipv4/conf/default/send_redirects", "0", false}} {
		if err := s.write(); err != nil {
			return err
		}
	}
	if r.links, err = netlink.NewHandle(unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER); err != nil {
		return err
	}
	if r.tables, err = nftables.New(nftables.AsLasting()); err != nil {
		return err
	}
	loopback, err := r.links.LinkByName("lo")
	if err != nil {
		return err
	}
	return plugged(r.links, loopback, single(r.gateway))
}

// connectHost configures the router's end of the cable.
func (r *Router) connectHost() error {
	link, err := r.links.LinkByName(routerEnd)
	if err != nil {
		return err
	}
	u := &r.uplink
	if err := plugged(r.links, link, netip.PrefixFrom(u.at(localPlace), blockBits), netip.PrefixFrom(u.at(outerPlace), blockBits)); err != nil {
		return err
	}
	if err := u.activate(); err != nil {
		return err
	}
	return r.links.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(netip.PrefixFrom(netip.IPv4Unspecified(), 0)), Gw: u.at(hostPlace).AsSlice()})
}

// build makes the table, in which no sandbox is yet.
func (r *Router) build(special []netip.Prefix) error {
	r.table = r.tables.AddTable(&nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4})
	b := r.batch()
	b.inner(denyChain)
	b.rule(denyChain, all(protocol(false), reset))
	b.rule(denyChain, drop)
	b.inner(publicChain)
	for _, p := range special {
		b.rule(publicChain, all(within(destinationOffset, p), deny))
	}
	b.rule(publicChain, mark(markOuter))
	r.buildSets(b)
	r.buildArriving(b)
	r.buildPassing(b)
	b.chain("leaving", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, sourcePriority, nftables.ChainPolicyAccept)
	b.rule("leaving", all(to(routerEnd), marked(markLocal), translated(expr.NATTypeSourceNAT, r.uplink.at(localPlace))))
	b.rule("leaving", all(to(routerEnd), marked(markOuter), translated(expr.NATTypeSourceNAT, r.uplink.at(outerPlace))))
	b.rule("leaving", all(to(routerEnd), drop))
	return b.send()
}

func (r *Router) batch() *builder { return &builder{tables: r.tables, table: r.table} }

// buildSets makes those of devices.
func (r *Router) buildSets(b *builder) {
	r.sources = &nftables.Set{Table: r.table, Name: "sources", Concatenation: true, KeyType: nftables.MustConcatSetType(nftables.TypeIFName, nftables.TypeIPAddr)}
	verdicts := func(name string) *nftables.Set {
		return &nftables.Set{Table: r.table, Name: name, IsMap: true, KeyType: nftables.TypeIFName, DataType: nftables.TypeVerdict}
	}
	r.sends, r.asks, r.gets = verdicts("sends"), verdicts("asks"), verdicts("gets")
	for _, s := range []*nftables.Set{r.sources, r.sends, r.asks, r.gets} {
		b.set(s, nil)
	}
}

// buildArriving: a sandbox has the address that it was given, and its questions about
// names, whomever they are for, and nothing else, are for the router itself.
func (r *Router) buildArriving(b *builder) {
	b.chain("arriving", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, rawPriority, nftables.ChainPolicyDrop)
	b.rule("arriving", all(from("lo"), accept))
	b.rule("arriving", all(from(routerEnd), accept))
	const second = 2 // the register after that of a name
	source := &expr.Payload{DestRegister: second, Base: expr.PayloadBaseNetworkHeader, Offset: sourceOffset, Len: 4}
	b.rule("arriving", all([]expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: first}, source, lookup(r.sources)}, accept))
	b.chain("names", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, destinationPriority, nftables.ChainPolicyAccept)
	b.chain("router", nftables.ChainTypeFilter, nftables.ChainHookInput, filterPriority, nftables.ChainPolicyDrop)
	b.rule("router", all(from("lo"), accept))
	b.rule("router", all(from(routerEnd), drop))
	for _, udp := range []bool{true, false} {
		b.rule("names", all(notFrom(routerEnd), protocol(udp), ports(dnsPort, dnsPort), translated(expr.NATTypeDestNAT, r.gateway)))
		b.rule("router", all(within(destinationOffset, single(r.gateway)), protocol(udp), ports(dnsPort, dnsPort), byDevice(expr.MetaKeyIIFNAME, r.asks)))
	}
	b.rule("router", deny)
}

// buildPassing: from a sandbox to the host's networks as its chain says, and back what
// belongs to that.
func (r *Router) buildPassing(b *builder) {
	b.chain("passing", nftables.ChainTypeFilter, nftables.ChainHookForward, filterPriority, nftables.ChainPolicyDrop)
	b.inner("back")
	b.rule("back", byDevice(expr.MetaKeyOIFNAME, r.gets))
	b.rule("back", accept)
	b.rule("passing", all(from(routerEnd), state(expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED), verdict(expr.VerdictGoto, "back")))
	b.rule("passing", all(from(routerEnd), drop))
	b.rule("passing", all(notTo(routerEnd), deny))
	b.rule("passing", all(protocol(true), ports(quic, quic), drop))
	b.rule("passing", byDevice(expr.MetaKeyIIFNAME, r.sends))
	b.rule("passing", deny)
}

func lookup(s *nftables.Set) expr.Any {
	return &expr.Lookup{SourceRegister: first, SetName: s.Name, SetID: s.ID}
}

// byDevice goes where a map says for a device.
func byDevice(key expr.MetaKey, m *nftables.Set) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: first}, &expr.Lookup{SourceRegister: first, DestRegister: 0, IsDestRegSet: true, SetName: m.Name, SetID: m.ID}}
}

// Close takes all sandboxes off the network.
func (r *Router) Close() error {
	var errs []error
	if r.links != nil {
		if link, err := r.links.LinkByName(routerEnd); err == nil {
			errs = append(errs, r.links.LinkDel(link))
		}
		r.links.Close()
	}
	errs = append(errs, r.uplink.close())
	if r.tables != nil {
		errs = append(errs, r.tables.CloseLasting())
	}
	if r.namespace != nil {
		errs = append(errs, r.namespace.Close())
	}
	return errors.Join(errs...)
}
