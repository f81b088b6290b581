package gateway

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"aether/sandbox"
)

// TestReach: what a policy allows is reached, by name, and nothing else is.
func TestReach(t *testing.T) {
	port := serve(t, "0.0.0.0:0")
	b := newBox(t, "a.example", "*.wild.example", "private.example", "meta.example", "local.example", "both.example", "mapped.example")
	for name, want := range map[string]string{
		"a.example": "93.184.0.1", "A.EXAMPLE": "93.184.0.1", "sub.wild.example": "93.184.0.3",
		"both.example": "93.184.0.1", // its private address is not tried
	} {
		conn, err := b.reach(name, port)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if said, err := greeting(conn); err != nil || said != "hello from "+want+"\n" {
			t.Errorf("%s: %q, %v", name, said, err)
		}
		conn.Close()
	}
	for _, name := range []string{"private.example", "meta.example", "local.example", "mapped.example"} {
		if conn, err := b.reach(name, port); err == nil {
			conn.Close()
			t.Errorf("%s can be reached", name)
		}
		b.decision(func(d sandbox.NetworkDecision) bool {
			return d.Verdict == sandbox.VerdictDenied && d.Name == name && strings.Contains(d.Reason, "not a public address")
		})
	}
	for _, name := range []string{"b.example", "wild.example", "a.example.evil.example", "nosuch.wild.example"} {
		_, err := b.resolve(name)
		var missing *net.DNSError
		if !errors.As(err, &missing) || !missing.IsNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, addr := range []string{"93.184.0.1", "93.184.0.2", "10.99.0.1", "169.254.169.254", "198.18.0.1", "198.19.200.200"} {
		if conn, err := b.dial(netip.MustParseAddr(addr), port); err == nil {
			conn.Close()
			t.Errorf("%s can be reached without a name", addr)
		}
	}
}
