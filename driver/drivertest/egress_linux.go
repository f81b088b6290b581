package drivertest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/guest"
	"aether/internal/testroot"
	"aether/network/networktest"
	"aether/sandbox"
)

// egress are the tests of the modes in which only what a policy allows is reached. Nothing
// of them leaves this host: what is reached are servers of the tests'.
func (s *suite) egress(t *testing.T) []test {
	s = s.filtered(t, sandbox.EgressNetwork)
	if s == nil {
		return nil
	}
	return append(s.egressVerbs(s.driver.Info().Verbs), []test{
		{"allowed", s.reachAllowed}, {"everything else", s.reachNothingElse}, {"names", s.reachNames}, {"name server of an image", s.imageNameServer},
		{"datagrams", s.reachByDatagrams}, {"two sandboxes", s.reachNoOther}, {"policy change", s.changePolicy}, {"device", s.keepDevice},
		{"refusals", s.refusePolicies}, {"certificates", s.believe}, {"log", s.tellDecisions},
	}...)
}

// nat are those of them that a driver has a part in with the other mode. The rest is tried
// once for all, in package network.
func (s *suite) nat(t *testing.T) []test {
	s = s.filtered(t, sandbox.NatNetwork)
	if s == nil {
		return nil
	}
	return append(s.egressVerbs(s.driver.Info().Verbs), []test{
		{"allowed", s.reachAllowed}, {"everything else", s.reachNothingElse}, {"two sandboxes", s.reachNoOther}, {"policy change", s.changePolicy},
	}...)
}

// filtered is the suite for one of the modes, or nil if the driver has not that.
func (s *suite) filtered(t *testing.T, mode sandbox.NetworkMode) *suite {
	if !s.driver.Info().Networks.Has(mode) {
		return nil
	}
	reacher := sync.OnceValues(func() (string, error) { return tryNeighbour(t) })
	return &suite{Config: s.Config, driver: s.driver, mode: mode, reacher: reacher}
}

// nowhere is an address for documents, which no host has.
const nowhere = "203.0.113.7"

// reaching are sandboxes that reach what is listed.
func (s *suite) reaching(allow ...string) sandbox.Network {
	return sandbox.Network{Mode: s.mode, Allow: allow}
}

// reacher is the place of the program that probes the network inside.
const reacher = "/tmp/reach"

// networked makes a sandbox with a policy, and what probes it.
func (s *suite) networked(t *testing.T, allow ...string) *box {
	t.Helper()
	b := s.offered(t, sandbox.Spec{Network: s.reaching(allow...)})
	s.equip(t, b)
	return b
}

// equip gives a sandbox what probes its network.
func (s *suite) equip(t *testing.T, b *box) {
	t.Helper()
	program, err := s.reacher()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := b.Write(b.config.patient(t), reacher+".new", file); err != nil {
		t.Fatal(err)
	}
	// It is copied inside: a process that starts elsewhere meanwhile may hold a copy of
	// this one's descriptor, and what is open for writing cannot be executed.
	b.sh(t, fmt.Sprintf("cp %[1]s.new %[1]s && chmod 755 %[1]s", reacher))
}

// probe asks the sandbox what it sees of something.
func (b *box) probe(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec(b.config.patient(t), b.Client, guest.Cmd{Path: reacher, Args: args})
	if err != nil || out.Code != 0 {
		t.Fatalf("%q: code %d, %v\n%s%s", args, out.Code, err, out.stdout, out.stderr)
	}
	return strings.TrimSpace(out.stdout)
}

// wantProbe asks and wants an answer.
func (b *box) wantProbe(t testing.TB, want string, args ...string) {
	t.Helper()
	if got := b.probe(t, args...); got != want {
		t.Errorf("%q: %q, want %q", args, got, want)
	}
}

// address is the one that the sandbox has.
func (b *box) address(t testing.TB) string {
	t.Helper()
	address := b.probe(t, "address")
	if net.ParseIP(address) == nil {
		t.Fatalf("it has not one address: %q", address)
	}
	return address
}

// keep starts a probe that goes on.
func (b *box) keep(t testing.TB, args ...string) *lines {
	t.Helper()
	out := newLines()
	running, err := b.Client.Start(t.Context(), guest.Cmd{Path: reacher, Args: args, Stdout: out, Stderr: out})
	if err != nil {
		t.Fatal(err)
	}
	go running.Wait()
	return out
}

func (s *suite) reachAllowed(t *testing.T) {
	server := networktest.Echo(t, networktest.HostAddress(t))
	b := s.networked(t, server)
	b.wantProbe(t, "said hello there", "tcp", server, "hello", "there")
	long := strings.Repeat("x", 64<<10)
	b.wantProbe(t, "said "+long, "tcp", server, long)
}

// reachNothingElse: what no entry allows is refused, and not after a while.
func (s *suite) reachNothingElse(t *testing.T) {
	host := networktest.HostAddress(t)
	allowed, other := networktest.Echo(t, host), networktest.Echo(t, host)
	_, port, err := net.SplitHostPort(allowed)
	if err != nil {
		t.Fatal(err)
	}
	b := s.networked(t, allowed)
	for _, address := range []string{other, net.JoinHostPort(nowhere, port), net.JoinHostPort(sandbox.Gateway, port), "169.254.169.254:80"} {
		began := time.Now()
		b.wantProbe(t, "refused", "tcp", address, "x")
		if took := time.Since(began); took > s.within(30*time.Second) {
			t.Errorf("%s: to be refused took %v", address, took)
		}
	}
	b.wantProbe(t, "said x", "tcp", allowed, "x")
}

// reachNames: a name that is allowed has an address, by which its host is reached; another
// has none.
func (s *suite) reachNames(t *testing.T) {
	server := networktest.Echo(t, "127.0.0.1")
	_, port, err := net.SplitHostPort(server)
	if err != nil {
		t.Fatal(err)
	}
	b := s.networked(t, "localhost:"+port, server)
	b.wantProbe(t, "no such name", "name", "example.org.")
	b.wantProbe(t, "no such name", "name", "localhost.example.org.")
	if !knowsLocalhost(t) {
		t.Skip("this host's /etc/hosts does not know localhost")
	}
	address, ok := strings.CutPrefix(b.probe(t, "name", "localhost."), "at ")
	if !ok {
		t.Fatalf("localhost is not found: %q", address)
	}
	b.wantProbe(t, "said hello", "tcp", net.JoinHostPort(address, port), "hello")
	b.wantProbe(t, "refused", "tcp", net.JoinHostPort(address, "9"), "hello")
}

func knowsLocalhost(t testing.TB) bool {
	t.Helper()
	text, err := os.ReadFile("/etc/hosts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "127.0.0.1" && fields[1] == "localhost" {
			return true
		}
	}
	return false
}

// imageNameServer: sandboxes of an image that says otherwise, by a link that leads out of
// it, ask their gateway all the same.
func (s *suite) imageNameServer(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "resolv.conf")
	if err := testroot.Make(dir, testroot.Shell, nil); errors.Is(err, os.ErrNotExist) || sandbox.ClassOf(err) == sandbox.NotFound {
		t.Skipf("no image can be made of this host's programs: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "etc/resolv.conf")); err != nil {
		t.Fatal(err)
	}
	b := s.offered(t, sandbox.Spec{Image: dir, Network: s.reaching()})
	if got := b.sh(t, "grep -v '^#\\|^$' /etc/resolv.conf"); got != "nameserver "+sandbox.Gateway {
		t.Errorf("it has %q", got)
	}
	for _, name := range []string{outside, filepath.Join(dir, "etc/resolv.conf")} {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("%s was made: %v", name, err)
		}
	}
}

func (s *suite) reachByDatagrams(t *testing.T) {
	host := networktest.HostAddress(t)
	allowed, other := networktest.EchoDatagrams(t, host), networktest.EchoDatagrams(t, host)
	b := s.networked(t, allowed+"/udp", other) // which is the same port of another protocol
	b.wantProbe(t, "said hello", "udp", allowed, "hello")
	b.wantProbe(t, "silence", "hush", other, "hello")
}

// reachNoOther: sandboxes have addresses of their own, by which they do not reach each
// other whatever else they may.
func (s *suite) reachNoOther(t *testing.T) {
	one, other := s.networked(t), s.networked(t, sandbox.PublicList)
	const port = "7071"
	listens := one.keep(t, "listen", port)
	listens.await(t, s.Config, "listens")
	address := one.address(t)
	if other.address(t) == address {
		t.Errorf("both have the address %s", address)
	}
	other.wantProbe(t, "refused", "tcp", net.JoinHostPort(address, port), "x")
	if strings.Contains(listens.String(), "reached") {
		t.Error("another sandbox was reached")
	}
}

// changePolicy: a change holds for what is open and for what is new.
func (s *suite) changePolicy(t *testing.T) {
	server := networktest.Echo(t, networktest.HostAddress(t))
	b := s.networked(t, server)
	setter, ok := b.Instance.(sandbox.NetworkSetter)
	if !ok {
		t.Fatal("its policy cannot be changed")
	}
	held := b.keep(t, "hold", server)
	held.await(t, s.Config, "said held")
	if err := setter.SetNetwork(s.patient(t), s.reaching(server, nowhere)); err != nil {
		t.Fatal(err)
	}
	b.wantProbe(t, "said x", "tcp", server, "x")
	if strings.Contains(held.String(), "cut") {
		t.Error("a change that allows more has cut a connection")
	}
	if err := setter.SetNetwork(s.patient(t), s.reaching(nowhere)); err != nil {
		t.Fatal(err)
	}
	held.await(t, s.Config, "cut")
	b.wantProbe(t, "refused", "tcp", server, "x")
	if err := setter.SetNetwork(s.patient(t), s.reaching(server)); err != nil {
		t.Fatal(err)
	}
	b.wantProbe(t, "said x", "tcp", server, "x")
	wantClass(t, setter.SetNetwork(s.patient(t), s.reaching("a..b")), sandbox.Invalid)
	wantClass(t, setter.SetNetwork(s.patient(t), sandbox.Network{}), sandbox.Unsupported)
	b.destroy(t)
	wantClass(t, setter.SetNetwork(s.patient(t), s.reaching()), sandbox.NotFound)
	plain := s.make(t, sandbox.Spec{})
	wantClass(t, plain.Instance.(sandbox.NetworkSetter).SetNetwork(s.patient(t), s.reaching()), sandbox.Unsupported)
}

// netAdmin is the capability to change devices, by its number.
const netAdmin = 12

// keepDevice: there is one beside the loopback, and nobody inside may change it.
func (s *suite) keepDevice(t *testing.T) {
	b := s.offered(t, sandbox.Spec{Network: s.reaching()})
	if got := b.sh(t, "sed -n 's/^ *\\(eth[^:]*\\):.*/\\1/p' /proc/net/dev"); got != "eth0" {
		t.Errorf("it has the devices %q", got)
	}
	if s.driver.Info().Boundary > sandbox.ProcessBoundary {
		return // its kernel is its own
	}
	for _, user := range []string{"root", ""} {
		out, err := exec(s.patient(t), b.as(t, user), shell("sed -n 's/^Cap\\(Inh\\|Prm\\|Eff\\|Amb\\):\\s*//p' /proc/self/status"))
		if err != nil && user != "" {
			t.Logf("no root inside: %v", err)
			continue
		}
		for _, text := range strings.Fields(out.stdout) {
			mask, err := strconv.ParseUint(text, 16, 64)
			if err != nil || mask&(1<<netAdmin) != 0 {
				t.Errorf("user %q may change devices: %s, %v", user, text, err)
			}
		}
	}
}

func (s *suite) refusePolicies(t *testing.T) {
	for field, network := range map[string]sandbox.Network{
		"network.allow":       {Mode: s.mode, Allow: []string{"no-such-list"}},
		"network.deny":        {Mode: s.mode, Deny: []string{"a b"}},
		"network.connections": {Mode: s.mode, Connections: -1},
	} {
		_, err := s.try(t, sandbox.Spec{Network: network})
		wantClass(t, err, sandbox.Invalid)
		if !namesField(err, field) {
			t.Errorf("the field %s is not named: %v", field, err)
		}
	}
}

// egressLeaks counts what the host holds before and after many lives on the network. What
// holds the gateways stays for the next.
func (s *suite) egressLeaks(t *testing.T, dir string, mode sandbox.NetworkMode) {
	if !s.driver.Info().Networks.Has(mode) {
		t.Skip("it has no such network")
	}
	s = &suite{Config: s.Config, driver: s.driver, mode: mode}
	server := networktest.Echo(t, networktest.HostAddress(t))
	life := func(int) error {
		instance, err := s.driver.Create(s.patient(t), sandbox.Spec{Image: s.Image, Network: s.reaching(server)})
		if err != nil {
			return err
		}
		c := guest.NewClient(instance.Dial, guest.ClientOptions{})
		defer c.Close()
		host, port, _ := net.SplitHostPort(server)
		script := fmt.Sprintf("exec 3<>/dev/tcp/%s/%s; echo '> hello' >&3; read -r mark said <&3; echo $said", host, port)
		out, err := exec(s.patient(t), c, guest.Cmd{Path: "bash", Args: []string{"-c", script}})
		if err == nil && strings.TrimSpace(out.stdout) != "hello" {
			err = fmt.Errorf("%q, %q", out.stdout, out.stderr)
		}
		return errors.Join(err, instance.Destroy(t.Context()))
	}
	if err := life(0); sandbox.ClassOf(err) == sandbox.Unavailable {
		t.Skipf("the driver refuses it: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	before := s.census(t, dir)
	if mode == sandbox.NatNetwork { // the driver's part is the same
		s.each(t, 2, life)
	} else {
		s.each(t, s.few(8), life)
		s.interrupted(t, sandbox.Spec{Image: s.Image, Network: s.reaching(server)})
	}
	s.wantNoGrowth(t, before, dir)
}
