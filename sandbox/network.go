package sandbox

import (
	"context"
	"slices"
)

// NetworkMode is a kind of network policy.
type NetworkMode string

const (
	// NoNetwork: a loopback of its own and nothing else. The zero value.
	NoNetwork NetworkMode = ""
	// EgressNetwork: only what Allow names can be reached.
	EgressNetwork NetworkMode = "egress"
	// NatNetwork: the same, decided by the kernel by the addresses that names have, which
	// is faster and weaker: see docs/network.md. It takes root.
	NatNetwork NetworkMode = "nat"
	// HostNetwork: the host's own network. It is not isolated at all.
	HostNetwork NetworkMode = "host"
)

// Filtered says whether the mode has a policy, which can be changed.
func (m NetworkMode) Filtered() bool { return m == EgressNetwork || m == NatNetwork }

// PublicList is the name of the list of everything public: every name, and every address
// that is not private, the host's own or otherwise special.
const PublicList = "public"

// Gateway is where a sandbox whose network is filtered finds its gateway, which is also its name
// server: an address that no host has.
const Gateway = "198.18.0.1"

// Network is a policy for what a sandbox may reach.
type Network struct {
	Mode NetworkMode `json:"mode,omitempty"`
	// Allow lists what a filtered network reaches: see Reach for what an entry can be. A name
	// is reached only at public addresses, unless entries allow the others too.
	Allow []string `json:"allow,omitempty"`
	// Deny lists what it does not reach even if Allow says so.
	Deny []string `json:"deny,omitempty"`
	// Connections bounds how many there are at once, Rate how many bytes pass in a
	// second, both ways together. Zero means the driver's default, and no bound for Rate.
	Connections int   `json:"connections,omitempty"`
	Rate        int64 `json:"bytes_per_second,omitempty"`
	// HTTP are rules about requests to some of the hosts.
	HTTP []HTTPRule `json:"http,omitempty"`
	// Proxy is what all connections go through: see Proxy for how it is written. It is
	// told names and resolves them itself, so that whether a name has a private address is
	// its business.
	Proxy string `json:"proxy,omitempty"`
}

// Secrets are the names of those that the policy sends, each once.
func (n Network) Secrets() []string {
	var names []string
	for _, r := range n.HTTP {
		names = append(names, r.secrets()...)
	}
	if p, err := ParseProxy(n.Proxy); err == nil && p.Secret != "" {
		names = append(names, p.Secret)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Without is the policy for as long as there is no secret of this name: hosts that it would
// be sent to are not reached, and nothing is if it is the proxy's.
func (n Network) Without(secret string) Network {
	deny := slices.Clone(n.Deny)
	for _, r := range n.HTTP {
		if slices.Contains(r.secrets(), secret) {
			deny = append(deny, r.Host)
		}
	}
	n.HTTP = slices.DeleteFunc(slices.Clone(n.HTTP), func(r HTTPRule) bool { return slices.Contains(r.secrets(), secret) })
	if p, err := ParseProxy(n.Proxy); err == nil && p.Secret == secret {
		n.Proxy, n.Allow = "", nil
	}
	n.Deny = deny
	return n
}

// Networks are the modes that the sandboxes of a driver can have beside NoNetwork, which
// all have.
type Networks struct {
	Egress bool `json:"egress"`
	Nat    bool `json:"nat"`
	Host   bool `json:"host"`
}

// Has says whether a mode is one of them.
func (n Networks) Has(mode NetworkMode) bool {
	switch mode {
	case EgressNetwork:
		return n.Egress
	case NatNetwork:
		return n.Nat
	case HostNetwork:
		return n.Host
	}
	return mode == NoNetwork
}

// NetworkSetter is an Instance of which it can be changed what it may reach. Every
// Instance of a driver that has a filtered network is one.
type NetworkSetter interface {
	// SetNetwork changes the policy at once, of what is new and of what is open:
	// connections that it does not allow are cut. Errors: Invalid for a policy that is
	// wrong, Unsupported for another mode than the sandbox has and for a sandbox that has
	// none with a policy, NotFound once destroyed.
	SetNetwork(context.Context, Network) error
}

const (
	maxEntries     = 256
	maxConnections = 64 << 10
	// MinRate is the least rate that any driver accepts.
	MinRate = 1 << 10
)

func (n Network) validate() error {
	switch n.Mode {
	case NoNetwork, HostNetwork:
		return n.validateUnfiltered()
	case NatNetwork:
		if err := n.validateDirect(); err != nil {
			return err
		}
	case EgressNetwork:
	default:
		return Invalidf("network.mode", "%.40q is not one of none, egress, nat, host", string(n.Mode))
	}
	switch {
	case n.Connections < 0 || n.Connections > maxConnections:
		return Invalidf("network.connections", "%d is not between 0 and %d", n.Connections, maxConnections)
	case n.Rate < 0 || n.Rate > 0 && n.Rate < MinRate:
		return Invalidf("network.bytes_per_second", "%d is less than the least limit, %d", n.Rate, MinRate)
	}
	if err := validateEntries("network.allow", n.Allow); err != nil {
		return err
	}
	if err := validateEntries("network.deny", n.Deny); err != nil {
		return err
	}
	if n.Proxy != "" {
		if _, err := ParseProxy(n.Proxy); err != nil {
			return Invalidf("network.proxy", "%s", err.Error())
		}
	}
	return validateRules(n.HTTP)
}

func (n Network) validateUnfiltered() error {
	switch {
	case len(n.Allow) > 0:
		return Invalidf("network.allow", "only the modes egress and nat take a list")
	case len(n.Deny) > 0:
		return Invalidf("network.deny", "only the modes egress and nat take a list")
	case n.Connections != 0:
		return Invalidf("network.connections", "only the modes egress and nat bound them")
	case n.Rate != 0:
		return Invalidf("network.bytes_per_second", "only the modes egress and nat bound them")
	case len(n.HTTP) > 0:
		return Invalidf("network.http", "only the egress mode takes rules")
	case n.Proxy != "":
		return Invalidf("network.proxy", "only the egress mode goes through one")
	}
	return nil
}

// validateDirect refuses what cannot be held by who sees addresses alone.
func (n Network) validateDirect() error {
	switch {
	case len(n.HTTP) > 0:
		return Invalidf("network.http", "the nat mode reads no requests: only the egress mode takes rules")
	case n.Proxy != "":
		return Invalidf("network.proxy", "the nat mode connects to hosts themselves: only the egress mode goes through one")
	}
	for _, entry := range n.Allow {
		if r, err := ParseReach(entry); err == nil && r.Prefix.Addr().Is6() {
			return Invalidf("network.allow", "%.80q: the nat mode reaches no addresses of version 6", entry)
		}
	}
	return nil
}

func validateEntries(field string, entries []string) error {
	if len(entries) > maxEntries {
		return Invalidf(field, "%d entries are more than %d", len(entries), maxEntries)
	}
	for _, entry := range entries {
		r, err := ParseReach(entry)
		if err != nil {
			return &Error{Class: Invalid, Field: field, Reason: err.Error(), Remedy: reachForm}
		}
		if field == "network.deny" && r.List == PublicList {
			return Invalidf(field, "%q is everything that can be allowed", entry)
		}
	}
	return nil
}
