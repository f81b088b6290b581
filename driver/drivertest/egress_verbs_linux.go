package drivertest

import (
	"testing"

	"aether/network/networktest"
	"aether/sandbox"
)

// egressVerbs are what becomes of the network of sandboxes that are paused, forked and
// restored.
func (s *suite) egressVerbs(v sandbox.Verbs) (tests []test) {
	if v.Pause {
		tests = append(tests, test{"pause", s.egressPause})
	}
	if v.Fork != "" {
		tests = append(tests, test{"fork", s.egressFork})
	}
	if v.Snapshot != "" {
		tests = append(tests, test{"restore", s.egressRestore})
	}
	return tests
}

// egressPause: what is open goes on when its sandbox does, and a policy changes meanwhile.
func (s *suite) egressPause(t *testing.T) {
	server := networktest.Echo(t, networktest.HostAddress(t))
	b := s.networked(t, server)
	p := b.Instance.(sandbox.Pauser)
	held := b.keep(t, "hold", server)
	held.await(t, s.Config, "said held")
	s.mustPause(t, p)
	if err := p.Resume(s.patient(t)); err != nil {
		t.Fatal(err)
	}
	b.wantProbe(t, "said x", "tcp", server, "x")
	if got := held.String(); got != "said held\n" {
		t.Errorf("a pause has ended a connection: %q", got)
	}
	s.mustPause(t, p)
	if err := b.Instance.(sandbox.NetworkSetter).SetNetwork(s.patient(t), s.reaching()); err != nil {
		t.Error(err)
	}
	if err := p.Resume(s.patient(t)); err != nil {
		t.Fatal(err)
	}
	held.await(t, s.Config, "cut")
	b.wantProbe(t, "refused", "tcp", server, "x")
}

// egressFork: a child has an address of its own, and the policy of its Spec or else that
// which its source has by then, which a change of one leaves alone in the other.
func (s *suite) egressFork(t *testing.T) {
	server := networktest.Echo(t, networktest.HostAddress(t))
	source := s.networked(t, nowhere)
	if err := source.Instance.(sandbox.NetworkSetter).SetNetwork(s.patient(t), s.reaching(server)); err != nil {
		t.Fatal(err)
	}
	var children []sandbox.Instance
	err := s.soon(func() (err error) {
		children, err = source.Instance.(sandbox.Forker).Fork(s.patient(t), []sandbox.Spec{{}, {Network: s.reaching(nowhere)}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	same, other := s.wrap(t, children[0]), s.wrap(t, children[1])
	own := map[string]bool{}
	for _, b := range []*box{source, same, other} {
		own[b.address(t)] = true
	}
	if len(own) != 3 {
		t.Errorf("three sandboxes have the addresses %v", own)
	}
	same.wantProbe(t, "said x", "tcp", server, "x")
	other.wantProbe(t, "refused", "tcp", server, "x")
	if err := same.Instance.(sandbox.NetworkSetter).SetNetwork(s.patient(t), s.reaching()); err != nil {
		t.Fatal(err)
	}
	same.wantProbe(t, "refused", "tcp", server, "x")
	source.wantProbe(t, "said x", "tcp", server, "x")
	source.destroy(t)
	other.wantProbe(t, "refused", "tcp", server, "x")
}

// egressRestore: what is restored has the network of its Spec, and none if that says so.
func (s *suite) egressRestore(t *testing.T) {
	server := networktest.Echo(t, networktest.HostAddress(t))
	source := s.networked(t, server)
	dir := t.TempDir()
	snapshotter, restorer := source.Instance.(sandbox.Snapshotter), s.driver.(sandbox.Restorer)
	most := snapshotter.SnapshotFidelity()
	if err := snapshotter.Snapshot(s.patient(t), dir, most); err != nil {
		t.Fatal(err)
	}
	restore := func(give sandbox.Fidelity, n sandbox.Network) *box {
		t.Helper()
		instance, err := restorer.Restore(s.patient(t), dir, give, sandbox.Spec{Network: n})
		if err != nil {
			t.Fatal(err)
		}
		return s.wrap(t, instance)
	}
	for _, give := range []sandbox.Fidelity{sandbox.Filesystem, most} {
		b := restore(give, s.reaching(server))
		b.wantProbe(t, "said x", "tcp", server, "x")
		if b.address(t) == source.address(t) {
			t.Errorf("%s: it has its source's address", give)
		}
		none := restore(give, sandbox.Network{})
		none.wantProbe(t, "", "address")
	}
}
