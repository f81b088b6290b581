package sandbox

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func invalidRule(r HTTPRule) error {
	return Spec{Network: Network{Mode: EgressNetwork, HTTP: []HTTPRule{{Host: "ok.example"}, r}}}.Validate()
}

func TestHTTPRules(t *testing.T) {
	headers := func(pairs ...string) HTTPRule {
		r := HTTPRule{Host: "a.example", Headers: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			r.Headers[pairs[i]] = pairs[i+1]
		}
		return r
	}
	paths := func(list ...string) HTTPRule { return HTTPRule{Host: "a.example", Paths: list} }
	methods := func(list ...string) HTTPRule { return HTTPRule{Host: "a.example", Methods: list} }
	many := map[string]string{}
	for i := range maxHeaders + 1 {
		many["X-"+strings.Repeat("a", i+1)] = ""
	}
	for _, r := range []HTTPRule{
		{Host: "a.example"}, {Host: "*.a.example"}, {Host: "A.example.:8443"}, paths("/", "/*", "/v1*", "/v1/", "/a%2Fb", "/x.y..z", "/a;b"), methods("GET", "M-SEARCH"),
		headers("X-Key", ""), headers("Authorization", "Bearer ${A_1}${e2b.secrets.B}$ $x {}"), headers("Cookie", "a=b; c=€"),
	} {
		if err := invalidRule(r); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for _, r := range []HTTPRule{
		{}, {Host: "*"}, {Host: "1.2.3.4"}, {Host: "10.0.0.0/8"}, {Host: "packages"}, {Host: "a.example/udp"}, {Host: "a.example:443/tcp"}, {Host: "a.example:80-90"}, {Host: "https://a.example"},
		paths(""), paths("v1"), paths("*"), paths("/a/*/b"), paths("/a?b"), paths("/a#b"), paths("/a/../b"), paths("//a"), paths("/a//"), paths("/a/%2e"), paths("/a/..*"), paths("/a\\b"), paths("/a%"),
		paths("/" + strings.Repeat("a", maxPath)), paths(slices.Repeat([]string{"/"}, maxPaths+1)...),
		methods("get"), methods(""), methods("GET "), methods("CONNECT"), methods("G_T"), methods(slices.Repeat([]string{"GET"}, maxMethods+1)...),
		headers("", "x"), headers("a b", "x"), headers("a:b", "x"), headers("a_b", "x"), headers("ä", "x"), headers("Host", "x"), headers("content-length", "1"), headers("TE", "trailers"),
		headers("connection", "x"), headers("Proxy-Authorization", "x"), headers("Transfer-Encoding", "x"), headers("Upgrade", "x"), headers("Sec-WebSocket-Key", "x"), headers("Trailer", "x"), headers("keep-alive", "x"),
		headers("X", "a\r\nb"), headers("X", "a\x00"), headers("X", "${"), headers("X", "${}"), headers("X", "${a-b}"), headers("X", "${1a}"), headers("X", "${e2b.secrets.}"), headers("X", "${a ${b}}"),
		headers("X", strings.Repeat("a", maxHeaderValue+1)), headers("X-A", "1", "x-a", "2"), headers(strings.Repeat("a", maxHeaderName+1), "x"),
		{Host: "a.example", Headers: maps.Clone(many)},
	} {
		checkInvalid(t, invalidRule(r), "network.http[1]")
	}
}

func TestProxies(t *testing.T) {
	for text, want := range map[string]Proxy{
		"socks5://proxy.example:1080":                  {Scheme: "socks5", Name: "proxy.example", Port: 1080},
		"http://10.0.0.1:3128/":                        {Scheme: "http", Address: netip.MustParseAddr("10.0.0.1"), Port: 3128},
		"http://${UP}@[::ffff:1.2.3.4]:1":              {Scheme: "http", Address: netip.MustParseAddr("1.2.3.4"), Port: 1, Secret: "UP"},
		"socks5://${e2b.secrets.UP}@Proxy.example.:80": {Scheme: "socks5", Name: "proxy.example", Port: 80, Secret: "UP"},
	} {
		if got, err := ParseProxy(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "proxy.example:1080", "https://p.example:1", "socks5h://p.example:1", "http://p.example", "http://p.example:0", "http://p.example:70000", "http://:80", "http://user:s3cr3t@p.example:1",
		"http://${A}:${B}@p.example:1", "http://${A@p.example:1", "http://p.example:1/path", "http://[fe80::1%eth0]:1", "http://1.2.3:1", "http://p_ .example:1"} {
		if p, err := ParseProxy(text); err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
}
