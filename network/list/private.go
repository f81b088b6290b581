package list

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"aether/sandbox"
)

// isPrivate says that an address is one that a policy denies unless it is told otherwise:
// it is not public, or is one of this host's own.
func isPrivate(addr netip.Addr, own []netip.Addr) bool {
	return !sandbox.IsPublic(addr) || slices.Contains(own, addr)
}

// resolver tells where names lead.
type resolver struct {
	own    []netip.Addr
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

func newResolver() (*resolver, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list: addresses of this host: %w", err)
	}
	r := &resolver{lookup: net.DefaultResolver.LookupNetIP}
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			r.own = append(r.own, prefix.Addr().Unmap())
		}
	}
	return r, nil
}

// private gives the private addresses of something, or those that its name leads to.
func (r *resolver) private(ctx context.Context, to sandbox.Reach) ([]netip.Addr, error) {
	switch {
	case to.Prefix.IsValid():
		if !sandbox.IsPublicPrefix(to.Prefix) || slices.ContainsFunc(r.own, to.Prefix.Contains) {
			return []netip.Addr{to.Prefix.Addr()}, nil
		}
		return nil, nil
	case to.Below:
		return nil, nil
	}
	addrs, err := r.lookup(ctx, "ip", to.Name)
	if err != nil {
		return nil, err
	}
	for i, a := range addrs {
		addrs[i] = a.Unmap().WithZone("")
	}
	return slices.DeleteFunc(addrs, func(a netip.Addr) bool { return !isPrivate(a, r.own) }), nil
}
