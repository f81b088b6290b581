// Package policy decides what a sandbox may reach. It is data and pure functions: it
// resolves nothing, connects to nothing, and knows no sandbox.
package policy

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"aether/sandbox"
)

// Policy is what one sandbox may reach: nothing that Allow does not say, and nothing that
// Deny says. All names of lists in it have been replaced by what is on them.
type Policy struct {
	Allow []Rule `json:"allow,omitempty"`
	Deny  []Rule `json:"deny,omitempty"`
	// Connections bounds how many there are at once, Rate how many bytes pass in a
	// second; zero is no bound of the policy's.
	Connections int   `json:"connections,omitempty"`
	Rate        int64 `json:"rate,omitempty"`
	// HTTP are the rules about requests. They allow no host that Allow does not.
	HTTP []HTTPRule `json:"http,omitempty"`
	// Proxy is what connections go through, unless it is zero.
	Proxy sandbox.Proxy `json:"proxy,omitzero"`
	// Secrets are the values of those that rules and the proxy name. They are encoded by
	// whoever has to send them, and by nobody else.
	Secrets map[string]Secret `json:"-"`
}

// Rule is one entry.
type Rule struct {
	sandbox.Reach
	// Public is every public name and address instead.
	Public bool `json:"public,omitempty"`
	// Private says that the name may have addresses that are not public: who wrote the
	// entry is the host itself. At are those that it may have otherwise.
	Private bool         `json:"private,omitempty"`
	At      []netip.Addr `json:"at,omitempty"`
	// Authorization is the header of that name which requests to the host are given, if
	// they only read.
	Authorization Secret `json:"-"`
}

// String is the entry.
func (r Rule) String() string {
	if r.Public {
		return sandbox.PublicList
	}
	return r.Reach.String()
}

// Lists give what is on a list, which may take a while. Errors: NotFound.
type Lists func(ctx context.Context, name string) ([]Rule, error)

// Compile replaces the names of lists in a Network of the egress mode, which is valid, and
// asks for the secrets that it names. Errors: Invalid, with the field and the name, for a
// list or a secret that nobody knows; Denied for a secret that is for other hosts.
func Compile(ctx context.Context, n sandbox.Network, lists Lists, secrets sandbox.Secrets) (p Policy, err error) {
	p = Policy{Connections: n.Connections, Rate: n.Rate}
	if p.Allow, err = compile(ctx, "network.allow", n.Allow, lists); err != nil {
		return Policy{}, err
	}
	if p.Deny, err = compile(ctx, "network.deny", n.Deny, lists); err != nil {
		return Policy{}, err
	}
	if err := p.compileHTTP(n.HTTP, secrets); err != nil {
		return Policy{}, err
	}
	if n.Mode != sandbox.NatNetwork { // in which no request is read
		p.authorize()
	}
	return p, p.compileProxy(n.Proxy, secrets)
}

// compileProxy makes the proxy, and adds the secret that it names.
func (p *Policy) compileProxy(text string, secrets sandbox.Secrets) (err error) {
	const field = "network.proxy"
	if text == "" {
		return nil
	}
	if p.Proxy, err = sandbox.ParseProxy(text); err != nil {
		return &sandbox.Error{Class: sandbox.Invalid, Field: field, Err: err}
	}
	if p.Proxy.Secret == "" {
		return nil
	}
	return p.addSecret(field, p.Proxy.Secret, p.Proxy.Host(), secrets)
}

func compile(ctx context.Context, field string, entries []string, lists Lists) (rules []Rule, err error) {
	for _, entry := range entries {
		r, err := sandbox.ParseReach(entry)
		switch {
		case err != nil:
			return nil, &sandbox.Error{Class: sandbox.Invalid, Field: field, Err: err}
		case r.List == "":
			rules = append(rules, Rule{Reach: r})
		case r.List == sandbox.PublicList:
			rules = append(rules, Rule{Public: true})
		case lists == nil:
			return nil, unknown(field, entry)
		default:
			on, err := lists(ctx, r.List)
			if sandbox.ClassOf(err) == sandbox.NotFound {
				return nil, unknown(field, entry)
			}
			if err != nil {
				return nil, &sandbox.Error{Class: sandbox.ClassOf(err), Field: field, Reason: fmt.Sprintf("the list %q", entry), Err: err}
			}
			rules = append(rules, on...)
		}
	}
	return rules, nil
}

func unknown(field, entry string) error {
	e := sandbox.Invalidf(field, "no list is called %.80q", entry)
	e.Remedy = fmt.Sprintf("`aether net lists` shows them; a host of one word is written %s. or with a port", entry)
	return e
}

// Verdict is a decision. Rule is the entry that made it, or "" if none did.
type Verdict struct {
	Allowed bool
	// Denied says that an entry of Deny made it.
	Denied bool
	Rule   string
	// Private says that the rule allows addresses which are not public, and At which it
	// allows otherwise.
	Private bool
	At      []netip.Addr
}

// Name decides about a name, whatever its addresses: those are decided upon by Address
// when they are known. Port zero is any: whether something is there that can be reached.
func (p Policy) Name(name string, port uint16, udp bool) Verdict {
	for _, r := range p.Deny {
		if port != 0 && r.HasName(name) && r.hasPort(port, udp) || port == 0 && r.HasName(name) && r.First == 0 {
			return Verdict{Denied: true, Rule: r.String()}
		}
	}
	var best Verdict
	for _, r := range p.Allow {
		if !r.Public && !r.HasName(name) || port != 0 && !r.hasPort(port, udp) {
			continue
		}
		at := append(best.At, r.At...)
		if !best.Allowed || r.Private {
			best = Verdict{Allowed: true, Rule: r.String(), Private: r.Private}
		}
		best.At = at
	}
	return best
}

// Denies says whether an entry denies a name.
func (p Policy) Denies(name string, port uint16) bool {
	v := p.Name(name, port, false)
	return !v.Allowed && v.Rule != ""
}

// Address decides about an address that a name has, given the verdict on the name, or
// that a program has by itself, given none.
func (p Policy) Address(a netip.Addr, port uint16, udp bool, name Verdict) Verdict {
	a = a.Unmap().WithZone("")
	for _, r := range p.Deny {
		if r.hasAddress(a) && r.hasPort(port, udp) {
			return Verdict{Denied: true, Rule: r.String()}
		}
	}
	for _, r := range p.Allow {
		if r.hasAddress(a) && r.hasPort(port, udp) {
			return Verdict{Allowed: true, Rule: r.String(), Private: true}
		}
	}
	if !name.Allowed {
		name = p.publicly(port, udp)
	}
	name.Private = name.Private || slices.Contains(name.At, a)
	name.Allowed = name.Allowed && (name.Private || sandbox.IsPublic(a))
	return name
}

// publicly is the verdict on an address that no entry names.
func (p Policy) publicly(port uint16, udp bool) Verdict {
	for _, r := range p.Allow {
		if r.Public && r.hasPort(port, udp) {
			return Verdict{Allowed: true, Rule: r.String()}
		}
	}
	return Verdict{}
}

// Wide says that the policy allows names which it does not name itself.
func (p Policy) Wide(name string) bool {
	for _, r := range p.Allow {
		if r.Name == name && !r.Below {
			return false
		}
	}
	return true
}

// HasName says whether the entry is about a name.
func (r Rule) HasName(name string) bool {
	if r.Below {
		return strings.HasSuffix(name, "."+r.Name)
	}
	return r.Name != "" && r.Name == name
}

func (r Rule) hasAddress(a netip.Addr) bool { return r.Prefix.IsValid() && r.Prefix.Contains(a) }

// quic is the port at which HTTP is spoken over UDP, by names that nobody can see.
const quic = 443

func (r Rule) hasPort(port uint16, udp bool) bool {
	switch {
	case udp != r.UDP, udp && port == quic:
		return false
	}
	return r.First == 0 || port >= r.First && port <= r.Last
}
