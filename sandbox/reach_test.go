package sandbox

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseReach(t *testing.T) {
	for entry, want := range map[string]Reach{
		"packages":                 {List: "packages"},
		"db:5432":                  {Name: "db", First: 5432, Last: 5432},
		"db.":                      {Name: "db"},
		"localhost/tcp":            {Name: "localhost"},
		"example.com:80-80":        {Name: "example.com", First: 80, Last: 80},
		"API.Example.com.":         {Name: "api.example.com"},
		"*.example.com:443":        {Name: "example.com", Below: true, First: 443, Last: 443},
		"example.com:80-81/tcp":    {Name: "example.com", First: 80, Last: 81},
		"ntp.example.com:123/udp":  {Name: "ntp.example.com", First: 123, Last: 123, UDP: true},
		"_srv.example.com":         {Name: "_srv.example.com"},
		"xn--bcher-kva.example":    {Name: "xn--bcher-kva.example"},
		"10.0.0.0/8":               {Prefix: netip.MustParsePrefix("10.0.0.0/8")},
		"10.0.0.0/8:5432":          {Prefix: netip.MustParsePrefix("10.0.0.0/8"), First: 5432, Last: 5432},
		"0.0.0.0/0":                {Prefix: netip.MustParsePrefix("0.0.0.0/0")},
		"192.0.2.1:53/udp":         {Prefix: netip.MustParsePrefix("192.0.2.1/32"), First: 53, Last: 53, UDP: true},
		"2001:db8::1/128":          {Prefix: netip.MustParsePrefix("2001:db8::1/128")},
		"2001:db8::/32/udp":        {Prefix: netip.MustParsePrefix("2001:db8::/32"), UDP: true},
		"[2001:DB8::1]":            {Prefix: netip.MustParsePrefix("2001:db8::1/128")},
		"2001:db8::1":              {Prefix: netip.MustParsePrefix("2001:db8::1/128")},
		"[2001:db8::/32]:443":      {Prefix: netip.MustParsePrefix("2001:db8::/32"), First: 443, Last: 443},
		"::ffff:192.0.2.1":         {Prefix: netip.MustParsePrefix("192.0.2.1/32")},
		"[::ffff:192.0.2.0/120]:1": {Prefix: netip.MustParsePrefix("192.0.2.0/24"), First: 1, Last: 1},
	} {
		got, err := ParseReach(entry)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", entry, got, err, want)
		}
		if again, err := ParseReach(got.String()); err != nil || again != got {
			t.Errorf("%q is written as %q, which is %+v, %v", entry, got, again, err)
		}
	}
}

// TestReachIsWritten: an entry has one canonical form, without the protocol that it has
// anyway.
func TestReachIsWritten(t *testing.T) {
	for entry, want := range map[string]string{
		"API.Example.COM.:443/tcp": "api.example.com:443", "example.com:80-80": "example.com:80", "localhost/tcp": "localhost.", "db./udp": "db/udp",
		"10.1.2.3/32": "10.1.2.3", "[2001:DB8::1]": "2001:db8::1", "[2001:db8::/32]:443/tcp": "[2001:db8::/32]:443", "::ffff:10.0.0.1": "10.0.0.1",
		strings.Repeat("a", 63) + ".com/tcp": strings.Repeat("a", 63) + ".com",
	} {
		if r, err := ParseReach(entry); err != nil || r.String() != want {
			t.Errorf("%q: %q, %v", entry, r, err)
		}
	}
}

func TestParseReachRefuses(t *testing.T) {
	for _, entry := range []string{
		"", ".", "*", "*.", ":443", "a b", "a..b", "-a.com", "a-.com", "*.*.com", "a.*.com", "**.com", "example.com:", "example.com:0", "example.com:65536",
		"example.com:2-1", "example.com:x", "example.com:+80", "example.com:080", "example.com:80-", "example.com:-80", "example.com/icmp", "example.com/tcp/udp",
		"example.com/path", "https://example.com", "user@example.com", "b\u00fccher.example", "o\u212a.example", "a\x00.com", "exa mple.com",
		"1.2.3", "0x7f.1", "2130706433", "0x7f000001", "127.1", "0177.0.0.1", "example.0x1f", "fe80::1%eth0", "[fe80::1%eth0]", "10.0.0.0/33", "10.0.0.1/8",
		"::ffff:0.0.0.0/8", "2001:db8::1/32", "[::1", "[::1]443", "[::1]:", "[10.0.0.1]:80", "[example.com]:80", "[]", "1.2.3.4.5", "a.1",
		strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 130) + "com", strings.Repeat("x", 10000),
	} {
		if r, err := ParseReach(entry); err == nil || len(err.Error()) > 500 {
			t.Errorf("%.80q is taken for %+v, %v", entry, r, err)
		}
	}
}

func FuzzParseReach(f *testing.F) {
	for _, seed := range []string{"*.example.com:443", "[2001:db8::/32]:1-2/udp", "db.", "packages", "[::1]", "10.0.0.0/8:1/tcp", "0x1f", "*.a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		r, err := ParseReach(entry)
		if err != nil {
			return
		}
		if (r.List != "") == (r.Name != "" || r.Prefix.IsValid()) || r.Name != "" && r.Prefix.IsValid() {
			t.Errorf("%q is not one of a list, a name and addresses: %+v", entry, r)
		}
		if again, err := ParseReach(r.String()); err != nil || again != r {
			t.Errorf("%q: %+v is written as %q, which is %+v, %v", entry, r, r, again, err)
		}
	})
}

func TestIsPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"1.2.3.4": true, "2606:4700::1": true, "10.0.0.1": false, "169.254.169.254": false, "::ffff:169.254.169.254": false, "::ffff:1.2.3.4": true,
		"127.0.0.1": false, "::1": false, "::": false, "fe80::1": false, "fd00::1": false, "64:ff9b::a9fe:a9fe": false, "2002:a9fe:a9fe::": false,
		"100.64.0.1": false, "198.18.0.1": false, "224.0.0.1": false, "255.255.255.255": false, "0.0.0.0": false,
	} {
		if got := IsPublic(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
