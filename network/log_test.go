package network

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

func TestDecisionsAreCounted(t *testing.T) {
	l := newDecisionLog()
	now := time.Now()
	one := sandbox.NetworkDecision{Time: now, Verdict: sandbox.VerdictDenied, Kind: "dns", Name: "a.example", Reason: "no rule allows it"}
	two := sandbox.NetworkDecision{Time: now, Verdict: sandbox.VerdictAllowed, Kind: "end", Name: "b.example", Sent: 3, Received: 4}
	for range 3 {
		l.add(two)
		one.Time = one.Time.Add(time.Second)
		l.add(one)
	}
	got, missed := l.list()
	one.Count, two.Count, two.Sent, two.Received = 3, 3, 9, 12
	if len(got) != 2 || got[0] != two || got[1] != one || missed != 0 {
		t.Errorf("%+v, %d missed", got, missed)
	}
}

// TestDecisionsAreBounded has a sandbox ask for ever new names: the last are remembered,
// and the others counted.
func TestDecisionsAreBounded(t *testing.T) {
	l := newDecisionLog()
	for i := range 3 * maxKept {
		l.add(sandbox.NetworkDecision{Verdict: sandbox.VerdictDenied, Kind: "dns", Name: fmt.Sprintf("n%d.example", i)})
	}
	got, missed := l.list()
	if len(got) != maxKept || len(l.same) != maxKept || missed != 2*maxKept || got[0].Name != fmt.Sprintf("n%d.example", 2*maxKept) {
		t.Errorf("%d are kept, %d missed, the first is %+v", len(got), missed, got[0])
	}
}

// TestUnbelievableDecisions has the program of the gateways tell what cannot be.
func TestUnbelievableDecisions(t *testing.T) {
	l := newDecisionLog()
	for _, d := range []sandbox.NetworkDecision{
		{}, {Verdict: "maybe"}, {Verdict: sandbox.VerdictDenied, Name: "\x1b[31m"}, {Verdict: sandbox.VerdictDenied, Name: "UPPER.example"},
		{Verdict: sandbox.VerdictDenied, Reason: strings.Repeat("x", 1<<20)}, {Verdict: sandbox.VerdictDenied, Address: netip.MustParseAddr("fe80::1%x")},
	} {
		l.add(d)
	}
	l.miss(-100)
	if got, missed := l.list(); len(got) != 0 || missed != 6 {
		t.Errorf("%+v, %d missed", got, missed)
	}
}
