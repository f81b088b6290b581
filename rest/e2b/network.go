package e2b

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"aether/engine"
	"aether/sandbox"
)

// networkConfig is what a sandbox may reach, and who may reach its ports.
type networkConfig struct {
	AllowOut           []string          `json:"allowOut,omitempty"`
	DenyOut            []string          `json:"denyOut,omitempty"`
	Rules              map[string][]rule `json:"rules,omitempty"`
	EgressProxy        *egressProxy      `json:"egressProxy,omitempty"`
	AllowPublicTraffic *bool             `json:"allowPublicTraffic,omitempty"`
	MaskRequestHost    string            `json:"maskRequestHost,omitempty"`
	HTTPSPorts         []int             `json:"httpsPorts,omitempty"`
}

type rule struct {
	Transform *transform `json:"transform,omitempty"`
}

type transform struct {
	Headers map[string]string `json:"headers,omitempty"`
}

type egressProxy struct {
	Address  string `json:"address"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
}

// everywhere is how clients write every address.
const everywhere = "0.0.0.0/0"

// policy is what a sandbox may reach. Its network is filtered in any case, so that what it
// may reach can be changed later. What E2B allows wins over what it denies, here it is the
// other way round: what cannot be said so is refused. Errors: Invalid, Unsupported.
func (n networkConfig) policy(internet *bool) (sandbox.Network, error) {
	to := sandbox.Network{Mode: sandbox.EgressNetwork}
	open := (internet == nil || *internet) && !slices.Contains(n.DenyOut, everywhere)
	allow := slices.Clone(n.AllowOut)
	if at := slices.Index(allow, everywhere); at >= 0 {
		allow, open = slices.Delete(allow, at, at+1), true
	}
	if open {
		allow = append(allow, sandbox.PublicList)
	}
	to.Allow = allow
	for _, entry := range n.DenyOut {
		if entry == everywhere {
			continue
		}
		if err := undecided(entry, allow); err != nil {
			return to, err
		}
		to.Deny = append(to.Deny, entry)
	}
	for _, host := range slices.Sorted(maps.Keys(n.Rules)) {
		for _, r := range n.Rules[host] {
			if r.Transform != nil {
				to.HTTP = append(to.HTTP, sandbox.HTTPRule{Host: host, Headers: r.Transform.Headers})
			}
		}
	}
	var err error
	to.Proxy, err = n.EgressProxy.text()
	return to, err
}

// undecided refuses to deny what is allowed too.
func undecided(deny string, allow []string) error {
	for _, entry := range allow {
		if overlap(deny, entry) {
			return &sandbox.Error{Class: sandbox.Unsupported, Field: "network.denyOut", Reason: "an entry covers one of allowOut, and here what is denied stays denied",
				Remedy: "deny everything (0.0.0.0/0) and allow what is wanted, or deny less"}
		}
	}
	return nil
}

func overlap(a, b string) bool {
	one, err := sandbox.ParseReach(a)
	other, wrong := sandbox.ParseReach(b)
	if err != nil || wrong != nil || one.List != "" || other.List != "" {
		return false
	}
	if one.Name != "" || other.Name != "" {
		return strings.EqualFold(a, b)
	}
	return one.Prefix.Overlaps(other.Prefix)
}

// text is a proxy as a Network has it: with a user and password, these are a secret's.
func (p *egressProxy) text() (string, error) {
	if p == nil {
		return "", nil
	}
	who := ""
	if p.Username != "" || p.Password != "" {
		if !strings.HasPrefix(p.Username, "${") || p.Password != "" {
			return "", &sandbox.Error{Class: sandbox.Unsupported, Field: "network.egressProxy", Reason: "a user and password would be kept in the clear",
				Remedy: "make a secret with the value user:password and give ${e2b.secrets.NAME} as the username"}
		}
		who = p.Username + "@"
	}
	return "socks5://" + who + p.Address, nil
}

// networkOf is the inverse of policy, of a sandbox as it is now.
func networkOf(s engine.Sandbox) networkConfig {
	n := s.Spec.Network
	config := networkConfig{MaskRequestHost: s.Spec.Metadata[markHost]}
	open := n.Mode == sandbox.HostNetwork
	for _, entry := range n.Allow {
		if entry == sandbox.PublicList {
			open = true
			continue
		}
		config.AllowOut = append(config.AllowOut, entry)
	}
	config.DenyOut = slices.Clone(n.Deny)
	if !open {
		config.DenyOut = append(config.DenyOut, everywhere)
	}
	for _, r := range n.HTTP {
		if config.Rules == nil {
			config.Rules = map[string][]rule{}
		}
		config.Rules[r.Host] = append(config.Rules[r.Host], rule{&transform{r.Headers}})
	}
	if p, err := sandbox.ParseProxy(n.Proxy); err == nil {
		config.EgressProxy = &egressProxy{Address: netAddress(p)}
	}
	public := !isPrivate(s)
	config.AllowPublicTraffic = &public
	return config
}

func netAddress(p sandbox.Proxy) string {
	if p.Name != "" {
		return p.Name
	}
	return netip.AddrPortFrom(p.Address, cmp.Or(p.Port, 1080)).String()
}
