package sandbox

import (
	"context"
	"net/netip"
	"time"
)

// Verdicts of decisions about a sandbox's network.
const (
	VerdictAllowed = "allowed"
	VerdictDenied  = "denied"
	// VerdictFailed is one that was allowed and came to nothing: no answer, no memory.
	VerdictFailed = "failed"
)

// ReasonRule is the Reason of what an entry of Deny denies.
const ReasonRule = "a rule denies it"

// NetworkDecision is what was decided about a name or a connection. What a sandbox sent
// is in it only if it has the form of a name.
type NetworkDecision struct {
	// Time is that of the last, where several are counted together.
	Time    time.Time `json:"time"`
	Verdict string    `json:"verdict"`
	// Kind is dns, tcp, udp, tls or http, or end for a connection that has ended.
	Kind    string     `json:"kind"`
	Name    string     `json:"name,omitempty"`
	Address netip.Addr `json:"address,omitzero"`
	Port    uint16     `json:"port,omitempty"`
	// Rule is the entry of the policy that decided, or "" where none allows it.
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Sent and Received count a connection's bytes, when it has ended.
	Sent     int64 `json:"sent,omitempty"`
	Received int64 `json:"received,omitempty"`
	// Count is how many were the same, where those are counted together, or 0.
	Count int64 `json:"count,omitempty"`
}

// NetworkLog is an Instance that remembers what was decided about its network.
type NetworkLog interface {
	// NetworkDecisions gives the different ones, those that were decided least recently
	// first, up to this moment, and how many are not remembered. Errors: Unsupported for
	// a sandbox that has no network of its own.
	NetworkDecisions(context.Context) (list []NetworkDecision, missed int64, err error)
}
