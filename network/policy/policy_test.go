package policy

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"aether/sandbox"
)

func compiled(t testing.TB, allow, deny []string) Policy {
	t.Helper()
	p, err := Compile(t.Context(), sandbox.Network{Mode: sandbox.EgressNetwork, Allow: allow, Deny: deny}, func(_ context.Context, name string) ([]Rule, error) {
		if name != "tools" {
			return nil, errors.New("no such list")
		}
		return []Rule{
			{Reach: sandbox.Reach{Name: "mirror.internal", First: 80, Last: 80}, Private: true},
			{Reach: sandbox.Reach{Name: "files.example", First: 80, Last: 80}, At: []netip.Addr{netip.MustParseAddr("192.168.1.1")}},
		}, nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestName(t *testing.T) {
	p := compiled(t, []string{"a.example", "*.b.example:443", "u.example:53/udp", "tools", "q.example/udp"}, []string{"x.b.example", "a.example:25"})
	for _, c := range []struct {
		name string
		port uint16
		udp  bool
		rule string
		want bool
	}{
		{"a.example", 443, false, "a.example", true},
		{"a.example", 0, false, "a.example", true},
		{"a.example", 25, false, "a.example:25", false},
		{"a.example", 443, true, "", false},
		{"b.a.example", 443, false, "", false},
		{"b.example", 443, false, "", false},
		{"y.b.example", 443, false, "*.b.example:443", true},
		{"y.z.b.example", 443, false, "*.b.example:443", true},
		{"y.b.example", 80, false, "", false},
		{"xb.example", 443, false, "", false},
		{"x.b.example", 443, false, "x.b.example", false},
		{"x.b.example", 0, false, "x.b.example", false},
		{"u.example", 53, true, "u.example:53/udp", true},
		{"u.example", 53, false, "", false},
		{"q.example", 443, true, "", false},
		{"q.example", 444, true, "q.example/udp", true},
		{"mirror.internal", 80, false, "mirror.internal:80", true},
	} {
		if v := p.Name(c.name, c.port, c.udp); v.Allowed != c.want || v.Rule != c.rule {
			t.Errorf("%s:%d, udp %v: %+v, want %v by %q", c.name, c.port, c.udp, v, c.want, c.rule)
		}
	}
}

func TestAddress(t *testing.T) {
	p := compiled(t, []string{"a.example", "10.0.0.0/8:5432", "tools", "2001:db8::/32"}, []string{"10.1.0.0/16", "8.8.8.8"})
	for _, c := range []struct {
		name, addr string
		port       uint16
		want       bool
	}{
		{"a.example", "1.2.3.4", 443, true},
		{"a.example", "::ffff:1.2.3.4", 443, true},
		{"a.example", "8.8.8.8", 443, false}, // denied whoever has it
		{"a.example", "10.0.0.1", 443, false},
		{"a.example", "10.0.0.1", 5432, true}, // both are said
		{"a.example", "169.254.169.254", 80, false},
		{"a.example", "::ffff:169.254.169.254", 80, false},
		{"a.example", "127.0.0.1", 443, false},
		{"mirror.internal", "192.168.1.1", 80, true},
		{"mirror.internal", "10.1.0.1", 80, false},
		{"files.example", "192.168.1.1", 80, true},
		{"files.example", "::ffff:192.168.1.1", 80, true},
		{"files.example", "192.168.1.2", 80, false}, // wherever the name leads later
		{"files.example", "169.254.169.254", 80, false},
		{"a.example", "192.168.1.1", 80, false},
		{"", "192.168.1.1", 80, false},
		{"", "1.2.3.4", 443, false},
		{"", "10.0.0.1", 5432, true},
		{"", "10.1.0.1", 5432, false},
		{"", "2001:db8::1", 9, true},
	} {
		var named Verdict
		if c.name != "" {
			named = p.Name(c.name, c.port, false)
		}
		if v := p.Address(netip.MustParseAddr(c.addr), c.port, false, named); v.Allowed != c.want {
			t.Errorf("%s at %s:%d: %+v", c.name, c.addr, c.port, v)
		}
	}
}

func TestPublic(t *testing.T) {
	p := compiled(t, []string{"public"}, []string{"evil.example", "9.9.9.0/24"})
	for name, want := range map[string]bool{"any.example": true, "evil.example": false} {
		if v := p.Name(name, 443, false); v.Allowed != want {
			t.Errorf("%s: %+v", name, v)
		}
	}
	for addr, want := range map[string]bool{"1.2.3.4": true, "9.9.9.9": false, "10.0.0.1": false, "169.254.169.254": false, "::1": false, "fd00::1": false, "2606:4700::1": true} {
		for _, name := range []string{"", "any.example"} {
			if v := p.Address(netip.MustParseAddr(addr), 443, false, p.Name(name, 443, false)); v.Allowed != want {
				t.Errorf("%s at %s: %+v", name, addr, v)
			}
		}
	}
	if v := p.Name("any.example", 443, true); v.Allowed {
		t.Errorf("QUIC: %+v", v)
	}
}

func TestUnknownList(t *testing.T) {
	none := func(context.Context, string) ([]Rule, error) { return nil, &sandbox.Error{Class: sandbox.NotFound} }
	for _, lists := range []Lists{nil, none} {
		_, err := Compile(t.Context(), sandbox.Network{Allow: []string{"nope"}}, lists, nil)
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Class != sandbox.Invalid || e.Field != "network.allow" || !strings.Contains(e.Reason, "nope") || !strings.Contains(e.Remedy, "aether net lists") {
			t.Errorf("%v", err)
		}
	}
}
