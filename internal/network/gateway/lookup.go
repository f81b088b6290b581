package gateway

import (
	"context"
	"errors"
	"net/netip"

	"aether/network/policy"
	"aether/sandbox"

	"golang.org/x/net/dns/dnsmessage"
)

// lookups are a sandbox's questions about names.
type lookups struct {
	ctx    context.Context
	policy policy.Policy
	way    *Way
	asked  *pace // of names that no rule has for itself
	tell   func(sandbox.NetworkDecision)
}

// look gives the addresses of a name that is allowed and has some, or the code that says
// why not. There are none with a proxy, which alone knows.
func (l lookups) look(name string) (list []netip.Addr, code dnsmessage.RCode) {
	d := sandbox.NetworkDecision{Verdict: sandbox.VerdictDenied, Kind: "dns", Name: name, Reason: "no rule allows it"}
	verdict := l.policy.Name(name, 0, false)
	if d.Rule = verdict.Rule; !verdict.Allowed {
		if verdict.Denied {
			d.Reason = sandbox.ReasonRule
		}
		l.tell(d)
		return nil, dnsmessage.RCodeNameError
	}
	d.Verdict = sandbox.VerdictFailed
	if l.policy.Wide(name) && !l.asked.take() {
		d.Reason = "too many questions about names that no rule has for itself"
		l.tell(d)
		return nil, dnsmessage.RCodeServerFailure
	}
	if l.policy.Proxy == (sandbox.Proxy{}) {
		if list, code, d.Reason = l.resolve(name); code != dnsmessage.RCodeSuccess {
			l.tell(d)
			return nil, code
		}
	}
	d.Verdict, d.Reason = sandbox.VerdictAllowed, ""
	l.tell(d)
	return list, dnsmessage.RCodeSuccess
}

func (l lookups) resolve(name string) (list []netip.Addr, code dnsmessage.RCode, reason string) {
	list, err := l.way.resolve(l.ctx, name)
	switch {
	case errors.Is(err, errNoHost), err == nil && len(list) == 0:
		return nil, dnsmessage.RCodeNameError, errNoHost.Error()
	case err != nil:
		return nil, dnsmessage.RCodeServerFailure, err.Error()
	}
	return list, dnsmessage.RCodeSuccess, ""
}
