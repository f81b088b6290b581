package networktest

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

// ours are the addresses that sandboxes and routers of this program have.
var ours = netip.MustParsePrefix("198.18.0.0/15")

// FindAddress gives an address of version 4 that this host has, and no sandbox.
func FindAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && prefix.Addr().Is4() && prefix.Addr().IsGlobalUnicast() && !ours.Contains(prefix.Addr()) {
			return prefix.Addr().String(), nil
		}
	}
	return "", errors.New("this host has no address of version 4 but that of its loopback")
}

// HostAddress is FindAddress for a test, which is skipped where there is none.
func HostAddress(t testing.TB) string {
	t.Helper()
	address, err := FindAddress()
	if err != nil {
		t.Skip(err)
	}
	return address
}
