package gateway

import (
	"context"
	"errors"
	"net"
	"sync"

	"aether/sandbox"
)

// upstream makes the connections to a host that the requests of one connection of the
// sandbox's need. Each counts as one of the sandbox's, but for the first.
type upstream struct {
	gateway *Gateway
	target  target
	mu      sync.Mutex
	// first is one that was made, or nil; free says that none counts yet.
	first net.Conn
	free  bool
}

var errTooMany = errors.New("too many connections")

// dial implements http.Transport's DialContext, whatever the address: the target is known.
func (u *upstream) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	u.mu.Lock()
	first, free := u.first, u.free
	u.first, u.free = nil, false
	u.mu.Unlock()
	if first != nil {
		return first, nil
	}
	end := func() {}
	if !free {
		if !u.gateway.flows.begin() {
			u.gateway.tell(sandbox.NetworkDecision{Verdict: sandbox.VerdictFailed, Kind: "tcp", Name: u.target.name, Address: u.target.address, Port: u.target.port, Reason: errTooMany.Error()})
			return nil, errTooMany
		}
		end = u.gateway.flows.end
	}
	conn, _, err := u.gateway.opts.Way.dial(ctx, *u.gateway.policy.Load(), u.target)
	if err != nil {
		end()
		return nil, err
	}
	return u.noted(conn, end)
}

// noted has a connection be cut when the policy no longer allows it.
func (u *upstream) noted(conn net.Conn, end func()) (net.Conn, error) {
	w := u.gateway.newFlow(u.target, conn, func() { abort(conn) })
	if !u.gateway.flows.add(w) {
		end()
		return nil, errors.Join(errors.New("the policy has changed"), conn.Close())
	}
	return &notedConn{Conn: conn, ended: sync.OnceFunc(func() { u.gateway.flows.remove(w); end() })}, nil
}

type notedConn struct {
	net.Conn
	ended func()
}

func (c *notedConn) Close() error {
	c.ended()
	return c.Conn.Close()
}
