package gateway

import (
	"cmp"
	"net"
	"reflect"
	"sync"

	"aether/network/policy"
	"aether/sandbox"
)

const (
	// defaultConnections is how many a sandbox has at once if its policy says nothing.
	defaultConnections = 512
	// maxFlows is how many all sandboxes have together.
	maxFlows = 32 << 10
	// wideFlows is how many connections of a sandbox, and maxWide of all sandboxes, have
	// buffers that grow. Those of the others are narrowBuffer.
	wideFlows    = 16
	maxWide      = 64
	narrowBuffer = 64 << 10
)

// flow is a connection of a sandbox, or what stands for one.
type flow struct {
	target target
	addr   net.Addr
	close  func()
	// rules are those about requests to the host, and proxy what it was reached through:
	// where another policy has others, the connection is cut.
	rules []policy.HTTPRule
	proxy sandbox.Proxy
}

// newFlow is a connection to a target, as the policy of now has it be.
func (g *Gateway) newFlow(t target, outer net.Conn, stop func()) *flow {
	p := g.policy.Load()
	return &flow{target: t, addr: outer.RemoteAddr(), close: stop, rules: p.RulesOf(t.name, t.port), proxy: p.Proxy}
}

// flows are all connections of a sandbox.
type flows struct {
	gateway *Gateway
	mu      sync.Mutex
	all     map[*flow]struct{}
	making  int
	wide    int
	closed  bool
}

func newFlows(g *Gateway) *flows { return &flows{gateway: g, all: map[*flow]struct{}{}} }

// total counts the flows of all sandboxes of this process.
var total struct {
	sync.Mutex
	count, wide int
}

// begin makes room for one more, or says that there is none. end must follow.
func (f *flows) begin() bool {
	most := cmp.Or(f.gateway.policy.Load().Connections, defaultConnections)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || len(f.all)+f.making >= most {
		return false
	}
	total.Lock()
	defer total.Unlock()
	if total.count >= maxFlows {
		return false
	}
	total.count++
	f.making++
	return true
}

func (f *flows) end() {
	f.mu.Lock()
	f.making--
	f.mu.Unlock()
	total.Lock()
	total.count--
	total.Unlock()
}

// widen says whether one more connection may have buffers that grow. If so, narrow must
// follow.
func (f *flows) widen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	total.Lock()
	defer total.Unlock()
	if f.wide >= wideFlows || total.wide >= maxWide {
		return false
	}
	f.wide++
	total.wide++
	return true
}

func (f *flows) narrow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	total.Lock()
	defer total.Unlock()
	f.wide--
	total.wide--
}

// add notes a connection that was made, if the policy of now allows it. Whoever adds
// removes.
func (f *flows) add(w *flow) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || !w.allowedBy(*f.gateway.policy.Load()) {
		return false
	}
	f.all[w] = struct{}{}
	f.making--
	return true
}

func (f *flows) remove(w *flow) {
	f.mu.Lock()
	delete(f.all, w)
	f.making++
	f.mu.Unlock()
}

// recheck cuts what a new policy does not allow. Connections that are being made are
// looked at when they are added.
func (f *flows) recheck(p policy.Policy) {
	f.mu.Lock()
	var cut []*flow
	for w := range f.all {
		if !w.allowedBy(p) {
			cut = append(cut, w)
		}
	}
	f.mu.Unlock()
	for _, w := range cut {
		w.close()
		f.gateway.tell(sandbox.NetworkDecision{Verdict: sandbox.VerdictDenied, Kind: w.target.network(), Name: w.target.name, Address: w.target.address, Port: w.target.port,
			Reason: "the policy has changed: the connection was cut"})
	}
}

func (f *flows) closeAll() {
	f.mu.Lock()
	f.closed = true
	var all []*flow
	for w := range f.all {
		all = append(all, w)
	}
	f.mu.Unlock()
	for _, w := range all {
		w.close()
	}
}

// allowedBy asks a policy about the name, and about the address that was connected to.
func (w *flow) allowedBy(p policy.Policy) bool {
	var byName policy.Verdict
	if w.target.name != "" {
		if byName = p.Name(w.target.name, w.target.port, w.target.udp); !byName.Allowed {
			return false
		}
	}
	if w.proxy != p.Proxy || !reflect.DeepEqual(w.rules, p.RulesOf(w.target.name, w.target.port)) {
		return false
	}
	if w.proxy != (sandbox.Proxy{}) {
		return w.target.name != "" || p.Address(w.target.address, w.target.port, w.target.udp, byName).Allowed
	}
	addr, ok := addressOf(w.addr)
	return ok && p.Address(addr.Addr(), w.target.port, w.target.udp, byName).Allowed
}
