package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"aether/network/policy"
	"aether/sandbox"
)

// Way is how hosts are reached from here, for all sandboxes.
type Way struct {
	// Servers resolve names. Hosts are names that have addresses whatever those say.
	Servers []netip.AddrPort
	Hosts   map[string][]netip.Addr
	// Roots are the authorities that hosts are believed by whose TLS ends here.
	Roots *x509.CertPool
	// Own are addresses of this host besides those of its interfaces.
	own ownAddresses
}

const (
	resolveTime = 10 * time.Second
	connectTime = 20 * time.Second
	serverTime  = 3 * time.Second
)

// errNoHost says that a name has no address.
var errNoHost = errors.New("the name has no address")

// resolve gives the addresses of a name, which is a whole one.
func (w *Way) resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	if list, ok := w.Hosts[name]; ok {
		return list, nil
	}
	if len(w.Servers) == 0 {
		return nil, errNoHost
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	list, err := w.resolver().LookupNetIP(ctx, "ip", name+".")
	var failed *net.DNSError
	if errors.As(err, &failed) && failed.IsNotFound {
		return nil, errNoHost
	}
	return list, err
}

// resolver asks the servers in turn, whatever this process finds about them itself.
func (w *Way) resolver() *net.Resolver {
	turn := 0
	var mu sync.Mutex
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		mu.Lock()
		server := w.Servers[turn%len(w.Servers)]
		turn++
		mu.Unlock()
		return (&net.Dialer{Timeout: serverTime}).DialContext(ctx, network, server.String())
	}}
}

// refusal says that the policy does not allow an address.
type refusal struct {
	verdict policy.Verdict
	address netip.Addr
	reason  string
}

func (r *refusal) Error() string { return r.reason }

// target is what a sandbox wants to reach: a name, or an address that it has by itself.
type target struct {
	name    string
	address netip.Addr
	port    uint16
	udp     bool
}

func (t target) network() string {
	if t.udp {
		return "udp"
	}
	return "tcp"
}

// dialer leaves what the host has set for connections that say nothing: three system calls
// less for each.
var dialer = net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: -1, Interval: -1, Count: -1}}

// dial connects to a target that the policy allows, at an address that it allows too:
// what is looked at is what is connected to. Errors: refusal if no address is allowed.
func (w *Way) dial(ctx context.Context, p policy.Policy, t target) (net.Conn, policy.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	if p.Proxy != (sandbox.Proxy{}) {
		return w.dialThrough(ctx, p, t)
	}
	list, verdict, err := w.allowed(ctx, p, t)
	if err != nil {
		return nil, verdict, err
	}
	var errs []error
	for _, addr := range list {
		conn, err := dialer.DialContext(ctx, t.network(), netip.AddrPortFrom(addr, t.port).String())
		if err == nil {
			return conn, verdict, nil
		}
		errs = append(errs, err)
	}
	return nil, verdict, errors.Join(errs...)
}

// allowed are the addresses of a target that the policy allows.
func (w *Way) allowed(ctx context.Context, p policy.Policy, t target) (list []netip.Addr, verdict policy.Verdict, err error) {
	var byName policy.Verdict
	all := []netip.Addr{t.address}
	if t.name != "" {
		if byName = p.Name(t.name, t.port, t.udp); !byName.Allowed {
			return nil, byName, &refusal{verdict: byName, reason: explain(t.address, byName)}
		}
		if all, err = w.resolve(ctx, t.name); err != nil {
			return nil, byName, err
		}
	}
	refused := &refusal{reason: "the name has no address"}
	for _, addr := range all {
		addr = addr.Unmap().WithZone("")
		v := p.Address(addr, t.port, t.udp, byName)
		switch {
		case !v.Allowed:
			refused = &refusal{verdict: v, address: addr, reason: explain(addr, v)}
		case !v.Private && w.own.has(addr):
			refused = &refusal{address: addr, reason: fmt.Sprintf("%s is an address of this host", addr)}
		default:
			list, verdict = append(list, addr), v
		}
	}
	if len(list) == 0 {
		return nil, refused.verdict, refused
	}
	return list, verdict, nil
}

func explain(addr netip.Addr, v policy.Verdict) string {
	switch {
	case v.Denied:
		return sandbox.ReasonRule
	case v.Rule == "":
		return "no rule allows it"
	}
	return fmt.Sprintf("%s is not a public address", addr)
}

// ownAddresses are those of this host's interfaces.
type ownAddresses struct {
	mu   sync.Mutex
	seen time.Time
	list []netip.Addr
}

// ownFor is how long they are believed.
const ownFor = 2 * time.Second

func (o *ownAddresses) has(a netip.Addr) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.seen) > ownFor {
		found, err := net.InterfaceAddrs()
		if err != nil && o.list == nil {
			return true // nobody knows
		}
		o.list = o.list[:0]
		for _, f := range found {
			if n, ok := f.(*net.IPNet); ok {
				if addr, ok := netip.AddrFromSlice(n.IP); ok {
					o.list = append(o.list, addr.Unmap())
				}
			}
		}
		o.seen = time.Now()
	}
	return slices.Contains(o.list, a)
}
