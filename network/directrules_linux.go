package network

import (
	"cmp"
	"net/netip"
	"slices"

	"aether/internal/host/nat"
	"aether/network/policy"
	"aether/sandbox"
)

// defaultConnections is how many a sandbox of the nat mode has at once if its policy says
// nothing.
const defaultConnections = 512

// group are the entries about names that have their ports, and more, in common. The
// addresses of those names are one set of the kernel's.
type group struct {
	at    nat.Match
	rules []policy.Rule
}

// has says whether an address of a name belongs to it.
func (g group) has(name string, a netip.Addr) bool {
	return slices.ContainsFunc(g.rules, func(r policy.Rule) bool {
		return r.HasName(name) && (g.at.Deny || g.at.Local && (r.Private || slices.Contains(r.At, a)) || !g.at.Local && sandbox.IsPublic(a))
	})
}

// directRules is a policy in the order in which the kernel asks: what is denied, what is
// allowed with addresses that need not be public, and what is allowed with public ones.
type directRules struct {
	policy policy.Policy
	groups []group // one for each match; those of prefixes have no rules
	public bool
}

func newDirectRules(p policy.Policy) *directRules {
	d := &directRules{policy: p}
	for _, r := range p.Deny {
		d.add(r, nat.Match{Deny: true})
	}
	for _, r := range p.Allow {
		if r.Prefix.IsValid() || r.Private || len(r.At) > 0 {
			d.add(r, nat.Match{Local: true})
		}
	}
	for _, r := range p.Allow {
		d.public = d.public || r.Public
		if !r.Prefix.IsValid() && !r.Public {
			d.add(r, nat.Match{})
		}
	}
	return d
}

// add adds an entry to the matches of a kind.
func (d *directRules) add(r policy.Rule, m nat.Match) {
	m.UDP, m.First, m.Last = r.UDP, r.First, r.Last
	if r.Prefix.IsValid() {
		if r.Prefix.Addr().Is4() {
			m.Prefix = r.Prefix
			d.groups = append(d.groups, group{at: m})
		}
		return
	}
	if i := slices.IndexFunc(d.groups, func(g group) bool { return same(g.at, m) }); i >= 0 {
		d.groups[i].rules = append(d.groups[i].rules, r)
		return
	}
	d.groups = append(d.groups, group{at: m, rules: []policy.Rule{r}})
}

// same says whether two matches differ in nothing but the addresses of names.
func same(a, b nat.Match) bool {
	return a.Deny == b.Deny && a.UDP == b.UDP && a.First == b.First && a.Last == b.Last && a.Prefix == b.Prefix && a.Local == b.Local
}

// rules are for the kernel, with the addresses that groups have.
func (d *directRules) rules(sets []map[netip.Addr]bool) nat.Rules {
	r := nat.Rules{Public: d.public, Connections: cmp.Or(d.policy.Connections, defaultConnections), Rate: d.policy.Rate}
	for i, g := range d.groups {
		for a := range sets[i] {
			g.at.Addresses = append(g.at.Addresses, a)
		}
		r.Matches = append(r.Matches, g.at)
	}
	return r
}

// allows says what the kernel does about a connection.
func (d *directRules) allows(f nat.Flow, sets []map[netip.Addr]bool) bool {
	const quic = 443
	if f.UDP && f.Port == quic {
		return false
	}
	for i, g := range d.groups {
		m := g.at
		if m.UDP == f.UDP && (m.First == 0 || m.First <= f.Port && f.Port <= m.Last) && (m.Prefix.IsValid() && m.Prefix.Contains(f.To) || sets[i][f.To]) {
			return !m.Deny
		}
	}
	return d.public && !f.UDP && sandbox.IsPublic(f.To)
}

// reaches says whether any port of an address of a name can be reached.
func (d *directRules) reaches(name string, a netip.Addr) bool {
	if !d.policy.Name(name, 0, false).Allowed {
		return false
	}
	return d.public && sandbox.IsPublic(a) || slices.ContainsFunc(d.groups, func(g group) bool {
		return !g.at.Deny && (g.at.Prefix.IsValid() && g.at.Prefix.Contains(a) || g.has(name, a))
	})
}
