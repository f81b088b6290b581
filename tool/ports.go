package tool

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"aether/guest"
	"aether/sandbox"
)

const (
	maxPorts       = 64
	maxConnections = 128
	portDial       = 10 * time.Second
)

// dialPort connects to a port of a sandbox, until it is released.
type dialPort func(context.Context) (conn guest.PortConn, release func(), err error)

// port is one that leads into a sandbox.
type port struct {
	sandbox  string
	inside   int
	listener net.Listener
	life     context.Context
	end      context.CancelFunc
}

// ports are those of this host's loopback that a session has opened.
type ports struct {
	mu      sync.Mutex
	closed  bool
	list    []*port
	serving sync.WaitGroup
}

// open gives the address that leads to a port of a sandbox, the same for the same.
func (p *ports) open(id string, inside int, dial dialPort) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.list {
		if one.sandbox == id && one.inside == inside {
			return one.listener.Addr().String(), nil
		}
	}
	if p.closed || len(p.list) >= maxPorts {
		return "", &sandbox.Error{Class: sandbox.Exhausted, Field: "port", Reason: "too many ports are open", Remedy: "destroy a sandbox that has some"}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", &sandbox.Error{Class: sandbox.Unavailable, Op: "expose a port", Err: err}
	}
	one := &port{sandbox: id, inside: inside, listener: l}
	one.life, one.end = context.WithCancel(context.Background())
	p.list = append(p.list, one)
	p.serving.Go(func() { one.serve(dial, &p.serving) })
	return l.Addr().String(), nil
}

// closeOf closes those of a sandbox.
func (p *ports) closeOf(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var left []*port
	for _, one := range p.list {
		if one.sandbox == id {
			one.close()
		} else {
			left = append(left, one)
		}
	}
	p.list = left
}

// close closes all, and waits until nothing is carried any more.
func (p *ports) close() {
	p.mu.Lock()
	p.closed = true
	for _, one := range p.list {
		one.close()
	}
	p.list = nil
	p.mu.Unlock()
	p.serving.Wait()
}

func (p *port) close() {
	p.end()
	p.listener.Close()
}

func (p *port) serve(dial dialPort, serving *sync.WaitGroup) {
	room := make(chan struct{}, maxConnections)
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		select {
		case room <- struct{}{}:
		case <-p.life.Done():
			conn.Close()
			return
		}
		serving.Go(func() {
			defer func() { <-room }()
			p.carry(conn.(*net.TCPConn), dial)
		})
	}
}

// carry carries one connection, both ways to the end of each.
func (p *port) carry(conn *net.TCPConn, dial dialPort) {
	defer conn.Close()
	ctx, cancel := context.WithTimeout(p.life, portDial)
	to, release, err := dial(ctx)
	cancel()
	if err != nil {
		_ = conn.SetLinger(0) // so that the caller is told, and does not wait for an answer
		return
	}
	defer release()
	defer to.Close()
	defer context.AfterFunc(p.life, func() { conn.Close(); to.Close() })()
	var sending sync.WaitGroup
	sending.Go(func() {
		if _, err := io.Copy(to, conn); err == nil {
			_ = to.CloseWrite() // a port that is closed is told of by what it answers
		}
	})
	if _, err := io.Copy(conn, to); err != nil {
		_ = conn.SetLinger(0) // it broke off, and did not end
	} else {
		_ = conn.CloseWrite()
	}
	to.Close()
	conn.Close()
	sending.Wait()
}
