package sandbox

import (
	"net/netip"
	"slices"
)

// IsPublic says whether an address is that of a host of the public Internet.
func IsPublic(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsValid() && a.Zone() == "" && IsPublicPrefix(netip.PrefixFrom(a, a.BitLen()))
}

// IsPublicPrefix says whether all addresses of a prefix are.
func IsPublicPrefix(p netip.Prefix) bool {
	if p.Addr().Is4() {
		return !slices.ContainsFunc(special4, p.Overlaps)
	}
	return routed6.Contains(p.Addr()) && p.Bits() >= routed6.Bits() && !slices.ContainsFunc(special6, p.Overlaps)
}

// SpecialPrefixes are those of version 4 that have no public addresses.
func SpecialPrefixes() []netip.Prefix { return slices.Clone(special4) }

// Addresses that are not hosts of the public Internet, or by which such can be
// reached, as the IANA registries of special-purpose addresses have them.
var (
	special4 = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4")
	routed6  = netip.MustParsePrefix("2000::/3")
	special6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)

func prefixes(list ...string) (all []netip.Prefix) {
	for _, text := range list {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}
