package access

import (
	"net/netip"
	"slices"
	"strings"

	"aether/sandbox"
)

func allowNetwork(p Policy, s sandbox.Spec) error {
	switch s.Network.Mode {
	case sandbox.NoNetwork, sandbox.EgressNetwork:
		return nil
	case sandbox.HostNetwork:
		if p.HostNetwork {
			return nil
		}
	}
	return denied("network.mode", askOperator, "a tenant may not have the network %.40q", string(s.Network.Mode))
}

func allowEgress(p Policy, s sandbox.Spec) error {
	for _, entry := range s.Network.Allow {
		if !slices.Contains(p.Egress, entry) && !isPublic(entry) {
			return denied("network.allow", askOperator, "a tenant may not reach %.80q, which is not public", entry)
		}
	}
	return nil
}

// isPublic says whether an entry of a Network's Allow has nothing but public names or
// addresses in it.
func isPublic(entry string) bool {
	if prefix, err := netip.ParsePrefix(entry); err == nil {
		return isPublicPrefix(prefix)
	}
	if addr, err := netip.ParseAddr(entry); err == nil {
		return addr.Zone() == "" && isPublicPrefix(netip.PrefixFrom(addr, addr.BitLen()))
	}
	return isPublicName(strings.TrimPrefix(entry, "*."))
}

func isPublicPrefix(p netip.Prefix) bool {
	if p.Addr().Is4() {
		return !slices.ContainsFunc(special4, p.Overlaps)
	}
	return routed6.Contains(p.Addr()) && !slices.ContainsFunc(special6, p.Overlaps)
}

// Addresses that are not hosts of the public Internet, or by which such can be
// reached, as the IANA registries of special-purpose addresses have them.
var (
	special4 = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4")
	routed6  = netip.MustParsePrefix("2000::/3")
	special6 = prefixes( // a prefix that reaches beyond routed6 overlaps these too
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)

func prefixes(list ...string) (all []netip.Prefix) {
	for _, text := range list {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}
