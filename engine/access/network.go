package access

import (
	"slices"

	"aether/sandbox"
)

func allowNetwork(p Policy, s sandbox.Spec) error {
	switch s.Network.Mode {
	case sandbox.NoNetwork, sandbox.EgressNetwork:
		return nil
	case sandbox.NatNetwork:
		if p.NatNetwork {
			return nil
		}
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
// addresses in it. Lists can be of the host's own tools and networks, but for that of
// everything public.
func isPublic(entry string) bool {
	r, err := sandbox.ParseReach(entry)
	switch {
	case err != nil:
		return false
	case r.List != "":
		return r.List == sandbox.PublicList
	case r.Prefix.IsValid():
		return sandbox.IsPublicPrefix(r.Prefix)
	}
	return isPublicName(r.Name)
}

// allowProxy: what a tenant's connections go through is public, as everything else that
// this host connects to for it.
func allowProxy(p Policy, s sandbox.Spec) error {
	text := s.Network.Proxy
	if text == "" || slices.Contains(p.Egress, text) {
		return nil
	}
	proxy, err := sandbox.ParseProxy(text)
	if err != nil || proxy.Name != "" && !isPublicName(proxy.Name) || proxy.Address.IsValid() && !sandbox.IsPublic(proxy.Address) {
		return denied("network.proxy", askOperator, "a tenant's proxy has a public name or address") // it may hold a password
	}
	return nil
}
