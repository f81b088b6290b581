package cli

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"aether/sandbox"
)

func TestDenials(t *testing.T) {
	private, raw, inside := netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("198.19.0.1")
	const none = "no rule allows it"
	denied := func(kind, name string, addr netip.Addr, port uint16, rule, reason string, count int64) sandbox.NetworkDecision {
		return sandbox.NetworkDecision{Verdict: sandbox.VerdictDenied, Kind: kind, Name: name, Address: addr, Port: port, Rule: rule, Reason: reason, Count: count}
	}
	list := denials([]sandbox.NetworkDecision{
		denied("dns", "a.example", netip.Addr{}, 0, "", none, 2),
		{Verdict: sandbox.VerdictAllowed, Kind: "dns", Name: "ok.example", Count: 1},
		{Verdict: sandbox.VerdictFailed, Kind: "dns", Name: "gone.example", Count: 1},
		denied("dns", "db", netip.Addr{}, 0, "", none, 1),
		denied("dns", "", netip.Addr{}, 0, "", "it is no name of a host", 1),
		denied("tcp", "a.example", inside, 22, "", none, 1),
		denied("tcp", "a.example", netip.MustParseAddr("198.19.0.2"), 22, "", none, 4), // the same host, by another address
		denied("tcp", "in.example", private, 443, "in.example", "10.0.0.5 is not a public address", 1),
		denied("tcp", "", raw, 25, "", none, 1),
		denied("udp", "", raw, 53000, "", none, 1),
		denied("udp", "b.example", inside, 443, "", none, 1),
		denied("tcp", "", inside, 80, "", "the address means no name", 1),
		denied("tls", "a.example", inside, 443, "", "the hello is for evil.example", 1),
		denied("dns", "no.example", netip.Addr{}, 0, "*.example", sandbox.ReasonRule, 1),
	})
	want := []denial{
		{"a.example", 2, "a.example", none},
		{"db.", 1, "db.", none},
		{"a name that cannot be", 1, "", "it is no name of a host"},
		{"a.example:22", 5, "a.example:22", none},
		{"in.example:443", 1, "10.0.0.5:443", "10.0.0.5 is not a public address"},
		{"[2001:db8::1]:25", 1, "[2001:db8::1]:25", none},
		{"[2001:db8::1]:53000/udp", 1, "[2001:db8::1]:53000/udp", none},
		{"b.example:443/udp", 1, "", "datagrams to this port are never passed on: programs use TCP instead"},
		{"198.19.0.1:80", 1, "", "the address means no name"},
		{"a.example:443", 1, "", "the hello is for evil.example"},
		{"no.example", 1, "", "a rule denies it: *.example"},
	}
	if !reflect.DeepEqual(list, want) {
		t.Errorf("%+v", list)
	}
	for _, d := range list {
		if _, err := sandbox.ParseReach(d.Allow); d.Allow != "" && err != nil {
			t.Error(err)
		}
	}
	if text := deniedText(list); !strings.HasSuffix(text, "would allow it: --allow a.example --allow db. --allow a.example:22 --allow 10.0.0.5:443 --allow '[2001:db8::1]:25' --allow '[2001:db8::1]:53000/udp'") {
		t.Error(text)
	}
}

func TestAskIsOfRunAlone(t *testing.T) {
	for args, says := range map[string]string{
		"create --net ask": `"ask"`, "run --net ask --template x": "a daemon holds the forks", "run --net asks -- true": "did you mean ask?",
	} {
		if got := run(t, nil, strings.Fields(args)...); got.status != 2 || !strings.Contains(got.stderr, says) {
			t.Errorf("%s: %+v", args, got)
		}
	}
}
