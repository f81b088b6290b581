package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"aether/sandbox"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	dnsPort  = 53
	httpPort = 80
	// lingering is how long one side of a connection may go on after the other has ended.
	lingering  = 5 * time.Minute
	hurryAgain = 50 * time.Millisecond
)

// handshakeTime is how long a sandbox may take to finish a connection that it began.
var handshakeTime = 10 * time.Second

// targetOf is what a connection of the sandbox's is for.
func (g *Gateway) targetOf(id stack.TransportEndpointID, udp bool) target {
	addr := netip.AddrFrom4(id.LocalAddress.As4())
	t := target{address: addr, port: id.LocalPort, udp: udp}
	if name, ok := g.names.name(addr); ok {
		t.name = name
	}
	return t
}

// acceptTCP is called, in a goroutine of its own, for a connection that the sandbox wants
// to make. The host is connected to first: what becomes of that is what the sandbox sees.
func (g *Gateway) acceptTCP(r *tcp.ForwarderRequest) {
	if !g.work.begin() { // the stack began this before Close, which did not know of it
		r.Complete(false)
		return
	}
	defer g.work.end()
	t := g.targetOf(r.ID(), false)
	if !g.flows.begin() {
		r.Complete(true)
		g.tell(sandbox.NetworkDecision{Verdict: sandbox.VerdictFailed, Kind: "tcp", Name: t.name, Address: t.address, Port: t.port, Reason: "too many connections"})
		return
	}
	defer g.flows.end()
	if t.port == dnsPort {
		if inner := g.complete(r, false); inner != nil {
			g.serveDNS(inner)
		}
		return
	}
	outer, err := g.connect(t)
	if err != nil {
		r.Complete(true)
		return
	}
	wide := g.flows.widen()
	if wide {
		defer g.flows.narrow()
	}
	inner := g.complete(r, wide)
	if inner == nil {
		outer.Close()
		return
	}
	g.carry(t, inner, outer)
}

// complete finishes the sandbox's handshake, or gives nil if the sandbox did not. Buffers
// of a wide one grow.
func (g *Gateway) complete(r *tcp.ForwarderRequest, wide bool) *innerConn {
	var queue waiter.Queue
	made := g.hurry(&queue)
	endpoint, err := r.CreateEndpoint(&queue)
	made()
	if err != nil {
		r.Complete(true)
		return nil
	}
	r.Complete(false)
	endpoint.SocketOptions().SetKeepAlive(true)
	if !wide {
		endpoint.SocketOptions().SetSendBufferSize(narrowBuffer, true)
		endpoint.SocketOptions().SetReceiveBufferSize(narrowBuffer, true)
	}
	return &innerConn{gonet.NewTCPConn(&queue, endpoint), endpoint}
}

// innerConn is a connection of the sandbox's.
type innerConn struct {
	*gonet.TCPConn
	endpoint tcpip.Endpoint
}

// abort ends a connection so that the other side sees that it was cut, and is not told
// politely that there is no more: by a reset.
func (c *innerConn) abort() {
	c.endpoint.Abort()
	c.Close()
}

// abort does so with a connection of the host's.
func abort(conn net.Conn) {
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0) // or it ends politely
	}
	conn.Close()
}

// hurry ends a handshake that takes too long, or longer than the gateway lives: the stack
// would wait for minutes. What it gives must be called.
func (g *Gateway) hurry(queue *waiter.Queue) (made func()) {
	ctx, cancel := context.WithTimeout(g.ctx, handshakeTime)
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		again := time.NewTicker(hurryAgain) // the stack may not listen yet
		defer again.Stop()
		for {
			queue.Notify(waiter.WritableEvents)
			select {
			case <-done:
				return
			case <-again.C:
			}
		}
	})
	return func() {
		stop()
		cancel()
		close(done)
	}
}

// connect reaches what the policy allows, and tells what was decided.
func (g *Gateway) connect(t target) (net.Conn, error) {
	d := sandbox.NetworkDecision{Verdict: sandbox.VerdictAllowed, Kind: t.network(), Name: t.name, Address: t.address, Port: t.port}
	if t.name == "" && namesFrom.Contains(t.address) {
		d.Verdict, d.Reason = sandbox.VerdictDenied, "the address means no name (any more): ask for the name again"
		g.tell(d)
		return nil, errNoHost
	}
	p := g.policy.Load()
	if t.udp && p.Ruled(t.name, t.port) {
		d.Verdict, d.Reason = sandbox.VerdictDenied, "rules are about requests to this host: nothing else is passed on to it"
		g.tell(d)
		return nil, errNoHost
	}
	conn, verdict, err := g.opts.Way.dial(g.ctx, *p, t)
	d.Rule = verdict.Rule
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		d.Verdict, d.Reason = sandbox.VerdictDenied, refused.reason
		if refused.address.IsValid() {
			d.Address = refused.address
		}
	case err != nil:
		d.Verdict, d.Reason = sandbox.VerdictFailed, err.Error()
	default:
		if to, ok := addressOf(conn.RemoteAddr()); ok && p.Proxy == (sandbox.Proxy{}) {
			d.Address = to.Addr()
		}
	}
	g.tell(d)
	return conn, err
}

func addressOf(a net.Addr) (netip.AddrPort, bool) {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort(), true
	case *net.UDPAddr:
		return a.AddrPort(), true
	}
	return netip.AddrPort{}, false
}

// carry passes what both sides say to each other, until both have ended or the policy
// cuts them. Who speaks first decides what is looked at: the sandbox's first words are
// read before anything is passed on, unless the host has spoken by then, as hosts of TLS
// and HTTP never do.
func (g *Gateway) carry(t target, inner *innerConn, outer net.Conn) {
	stop := sync.OnceFunc(func() { inner.Close(); outer.Close() })
	defer stop()
	cut := func() { inner.abort(); abort(outer) }
	w := g.newFlow(t, outer, cut)
	if !g.flows.add(w) {
		cut()
		return
	}
	defer g.flows.remove(w)
	c := &carried{target: t, gateway: g, inner: inner, outer: outer, stop: stop, cut: cut, decided: make(chan struct{})}
	if w.rules != nil {
		c.serveRuled()
	} else {
		c.carryBoth()
	}
	g.tell(sandbox.NetworkDecision{Verdict: sandbox.VerdictAllowed, Kind: "end", Name: t.name, Address: t.address, Port: t.port, Sent: c.sent.Load(), Received: c.received.Load()})
}

func (c *carried) carryBoth() {
	var back sync.WaitGroup
	back.Go(c.fromHost)
	c.fromSandbox()
	back.Wait()
}

// carried is a connection whose bytes are passed on.
type carried struct {
	target         target
	gateway        *Gateway
	inner          *innerConn
	outer          net.Conn
	stop, cut      func()
	sent, received atomic.Int64
	// decided is closed when it is known that bytes are passed on as they are.
	decided chan struct{}
	once    sync.Once
	spoken  atomic.Bool // the host has, before anything was decided
	taken   atomic.Bool // by requests, which have connections of their own
}

func (c *carried) decide() { c.once.Do(func() { close(c.decided) }) }

// fromHost passes on what the host says.
func (c *carried) fromHost() {
	buf := make([]byte, 4<<10)
	n, err := c.outer.Read(buf)
	if n > 0 {
		c.spoken.Store(true)
		c.decide()
	}
	select {
	case <-c.decided:
	case <-c.gateway.ctx.Done():
		return
	}
	if c.taken.Load() {
		return
	}
	if n > 0 {
		if _, err := c.inner.Write(buf[:n]); err != nil {
			c.stop()
			return
		}
		c.received.Add(int64(n))
	}
	if err == nil {
		c.gateway.pass(c.inner, c.outer, &c.received)
	}
	_ = c.inner.CloseWrite()
	_ = c.inner.SetReadDeadline(time.Now().Add(lingering))
}

// fromSandbox passes on what the sandbox says, whose first words are looked at.
func (c *carried) fromSandbox() {
	first, err := c.gateway.check(c)
	if err != nil {
		c.cut()
		c.decide()
		return
	}
	if first == nil { // it was HTTP, and is over
		return
	}
	c.decide()
	if _, err := c.outer.Write(first); err != nil {
		c.stop()
		return
	}
	c.sent.Add(int64(len(first)))
	c.gateway.pass(c.outer, c.inner, &c.sent)
	if half, ok := c.outer.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
	_ = c.outer.SetReadDeadline(time.Now().Add(lingering))
}

// paced is the sandbox's side, for those who read and write it themselves.
func (c *carried) paced() net.Conn {
	return &paced{Conn: c.inner, ctx: c.gateway.ctx, pace: c.gateway.rate, sent: &c.sent, received: &c.received}
}

// chunk is how much is passed on at once: what fits into one packet of a tap. A few bytes
// more would be a second packet each time.
const chunk = 64<<10 - 256

var chunks = sync.Pool{New: func() any { b := make([]byte, chunk); return &b }}

// pass copies until one side ends, and counts.
func (g *Gateway) pass(to io.Writer, from io.Reader, count *atomic.Int64) {
	buf := chunks.Get().(*[]byte)
	defer chunks.Put(buf)
	for {
		n, err := from.Read((*buf)[:g.rate.atOnce(chunk)])
		if n > 0 {
			g.rate.wait(g.ctx, n)
			if _, err := to.Write((*buf)[:n]); err != nil {
				return
			}
			count.Add(int64(n))
		}
		if err != nil {
			return
		}
	}
}
