package network

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"aether/internal/host/nat"
	"aether/network/policy"
	"aether/sandbox"
)

// TestDirectRulesAgree: what the kernel is told to do is what the policy says, for any
// entries about addresses.
func TestDirectRulesAgree(t *testing.T) {
	entries := []string{"10.0.0.0/8", "10.1.0.0/16:80", "10.1.2.3:80-90/udp", "93.184.0.0/16:443", "93.184.0.1", "93.184.0.1/udp", "0.0.0.0/0:22", "2001:db8::1", sandbox.PublicList}
	pick := func() (list []string) {
		for range rand.IntN(4) {
			list = append(list, entries[rand.IntN(len(entries))])
		}
		return list
	}
	for range 2000 {
		n := sandbox.Network{Allow: pick()}
		for _, entry := range pick() {
			if entry != sandbox.PublicList {
				n.Deny = append(n.Deny, entry)
			}
		}
		p, err := policy.Compile(t.Context(), n, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		d := newDirectRules(p)
		for _, to := range []string{"10.0.0.1", "10.1.0.1", "10.1.2.3", "93.184.0.1", "93.184.0.2", "93.185.0.1", "169.254.169.254"} {
			for _, port := range []uint16{22, 80, 85, 443} {
				for _, udp := range []bool{false, true} {
					f := nat.Flow{To: netip.MustParseAddr(to), Port: port, UDP: udp}
					want := p.Address(f.To, port, udp, policy.Verdict{}).Allowed
					if got := d.allows(f, make([]map[netip.Addr]bool, len(d.groups))); got != want {
						t.Fatalf("%+v, %+v: %v, want %v", n, f, got, want)
					}
				}
			}
		}
	}
}

// TestDirectNames: names bring their addresses into the matches of their entries, and
// private ones only where an entry lets them.
func TestDirectNames(t *testing.T) {
	public, private, other := netip.MustParseAddr("93.184.0.1"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	reach := func(text string) sandbox.Reach {
		r, err := sandbox.ParseReach(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	p := policy.Policy{
		Allow: []policy.Rule{{Reach: reach("*.a.example:443")}, {Reach: reach("b.example:443"), Private: true}, {Reach: reach("c.example:443"), At: []netip.Addr{private}}, {Reach: reach("d.example/udp")}},
		Deny:  []policy.Rule{{Reach: reach("x.a.example:443")}, {Reach: reach("y.a.example")}},
	}
	for _, c := range []struct {
		name string
		addr netip.Addr
		udp  bool
		port uint16
		want bool
	}{
		{"w.a.example", public, false, 443, true}, {"w.a.example", public, false, 80, false}, {"w.a.example", public, true, 443, false}, {"w.a.example", private, false, 443, false},
		{"a.example", public, false, 443, false}, {"x.a.example", public, false, 443, false}, {"y.a.example", public, false, 443, false},
		{"b.example", private, false, 443, true}, {"b.example", public, false, 443, true}, {"c.example", private, false, 443, true}, {"c.example", other, false, 443, false},
		{"d.example", public, true, 99, true}, {"d.example", public, true, 443, false}, {"d.example", public, false, 99, false},
	} {
		t.Run(fmt.Sprint(c.name, c.addr, c.port, c.udp), func(t *testing.T) {
			d := newDirect(p, nil)
			if d.rules.reaches(c.name, c.addr) {
				d.know(c.name, c.addr)
				d.added(c.name, c.addr)
			}
			if got := d.rules.allows(nat.Flow{To: c.addr, Port: c.port, UDP: c.udp}, d.sets); got != c.want {
				t.Errorf("%v", got)
			}
		})
	}
}
