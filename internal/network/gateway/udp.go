package gateway

import (
	"context"
	"net"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// udpIdle is how long the answers to a datagram are waited for.
const udpIdle = 60 * time.Second

// acceptUDP is called for the first datagram from one port of the sandbox to another of
// somebody else, by whoever reads the link, and so not after work is closed. It must not
// wait.
func (g *Gateway) acceptUDP(r *udp.ForwarderRequest) bool {
	if !g.flows.begin() {
		return true
	}
	t := g.targetOf(r.ID(), true)
	var queue waiter.Queue
	endpoint, err := r.CreateEndpoint(&queue)
	if err != nil {
		g.flows.end()
		return true
	}
	inner := gonet.NewUDPConn(&queue, endpoint)
	g.work.run(func() {
		defer g.flows.end()
		defer inner.Close()
		if t.port == dnsPort {
			g.answerDatagrams(inner)
			return
		}
		if outer, err := g.connect(t); err == nil {
			g.carryDatagrams(t, inner, outer)
		}
	})
	return true
}

// answerDatagrams answers questions from one port, of which most ask one or two.
func (g *Gateway) answerDatagrams(conn net.Conn) {
	defer g.closeWithGateway(conn)()
	question := make([]byte, maxQuestion)
	for {
		if err := conn.SetReadDeadline(time.Now().Add(datagramIdle)); err != nil {
			return
		}
		n, err := conn.Read(question)
		if err != nil {
			return
		}
		if reply := g.answer(question[:n]); reply != nil {
			if _, err := conn.Write(reply); err != nil {
				return
			}
		}
	}
}

// closeWithGateway has a connection closed when the gateway is. What it gives must be
// called.
func (g *Gateway) closeWithGateway(conn net.Conn) func() {
	stop := context.AfterFunc(g.ctx, func() { conn.Close() })
	return func() { stop() }
}

// carryDatagrams passes datagrams both ways until none has come for a while.
func (g *Gateway) carryDatagrams(t target, inner, outer net.Conn) {
	stop := sync.OnceFunc(func() { inner.Close(); outer.Close() })
	defer stop()
	w := g.newFlow(t, outer, stop)
	if !g.flows.add(w) {
		return
	}
	defer g.flows.remove(w)
	var back sync.WaitGroup
	back.Go(func() { g.passDatagrams(inner, outer); stop() })
	g.passDatagrams(outer, inner)
	back.Wait()
}

func (g *Gateway) passDatagrams(to, from net.Conn) {
	buf := chunks.Get().(*[]byte)
	defer chunks.Put(buf)
	for {
		if err := from.SetReadDeadline(time.Now().Add(udpIdle)); err != nil {
			return
		}
		n, err := from.Read(*buf)
		if err != nil {
			return
		}
		g.rate.wait(g.ctx, n)
		if _, err := to.Write((*buf)[:n]); err != nil {
			return
		}
	}
}
