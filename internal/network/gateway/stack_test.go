package gateway

import (
	"encoding/binary"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"aether/sandbox"

	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// whereIs asks for the gateway's hardware address.
func whereIs() []byte {
	frame := make([]byte, etherSize+header.ARPSize)
	binary.BigEndian.PutUint16(frame[12:], uint16(header.ARPProtocolNumber))
	question := header.ARP(frame[etherSize:])
	question.SetIPv4OverEthernet()
	question.SetOp(header.ARPRequest)
	gateway := tap.Gateway.As4()
	copy(question.ProtocolAddressTarget(), gateway[:])
	return frame
}

// TestStackOfTheFirstPacket: a sandbox that has sent nothing that is for it costs no stack.
func TestStackOfTheFirstPacket(t *testing.T) {
	version6 := make([]byte, etherSize+header.IPv6MinimumSize)
	binary.BigEndian.PutUint16(version6[12:], uint16(header.IPv6ProtocolNumber))
	first := syn(netip.MustParseAddr("192.0.2.1"), 4000, 7)
	for name, test := range map[string]struct {
		frames [][]byte
		want   bool
	}{
		"nothing": {}, "others": {frames: [][]byte{version6, {}}}, "a connection's first, twice": {[][]byte{first, first}, true},
	} {
		theirs, ours := cable()
		g, err := New(ours, Options{Tap: tap, Policy: policyOf(t, sandbox.Network{}), Way: &Way{}, Decided: func(sandbox.NetworkDecision) {}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for _, frame := range append(test.frames, whereIs()) {
			theirs.out <- frame
		}
		awaitAnswer(t, theirs) // the last was taken when it was answered
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if got := g.stack != nil; got != test.want {
			t.Errorf("%s: there is a stack: %v", name, got)
		}
	}
}

// awaitAnswer waits for the gateway's hardware address.
func awaitAnswer(t *testing.T, w *wire) {
	t.Helper()
	for {
		select {
		case frame := <-w.in:
			if binary.BigEndian.Uint16(frame[12:]) == uint16(header.ARPProtocolNumber) {
				return
			}
		case <-time.After(patience):
			t.Fatal("no answer")
		}
	}
}
