package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"aether/internal/host/nat"
	"aether/internal/host/netdev"
	"aether/internal/network/control"
	"aether/network/policy"
	"aether/sandbox"
)

// connectDirect is Connect for the nat mode. The sandbox's name server is in the process
// of the gateways; that asks here, and nowhere else, what may be reached.
func (s *Service) connectDirect(ctx context.Context, n sandbox.Network, namespace *netdev.Namespace) (*Attached, error) {
	if err := s.Accepts(n); err != nil {
		return nil, err
	}
	policy, err := s.Compile(ctx, n)
	if err != nil {
		return nil, err
	}
	router, err := s.openRouter()
	if err != nil {
		return nil, err
	}
	a, err := s.reserve()
	if err != nil {
		return nil, err
	}
	if err := a.joinDirect(ctx, n, policy, router, namespace); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// openRouter gives the router of all sandboxes, which is made for the first.
func (s *Service) openRouter() (*nat.Router, error) {
	s.routing.Lock()
	defer s.routing.Unlock()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if s.router != nil {
		return s.router, nil
	}
	router, err := nat.Open(s.log, gatewayAddress, sandbox.SpecialPrefixes())
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	s.router = router
	return router, nil
}

// joinDirect makes the sandbox's device and its name server.
func (a *Attached) joinDirect(ctx context.Context, n sandbox.Network, p policy.Policy, router *nat.Router, namespace *netdev.Namespace) error {
	d := newDirect(p, a.service.log)
	port, err := router.Join(namespace, a.tap, d.rules.rules(d.sets))
	if err != nil {
		return err
	}
	d.port = port
	datagrams, connections, err := port.Names()
	if err != nil {
		return errors.Join(err, port.Close())
	}
	d.listener = connections
	a.mu.Lock()
	a.device, a.direct = datagrams, d
	a.mu.Unlock()
	d.start(a.answer)
	return a.begin(ctx, n, p, nil)
}

// answer tells the name server which addresses it may give the sandbox.
func (a *Attached) answer(q question, list []netip.Addr) {
	if err := q.from.conn.WriteRequest(control.Request{Op: control.Admit, ID: a.id, Number: q.Number, Admitted: list}, nil); err != nil {
		a.service.log.Debug("network: a name server was not answered", "err", err)
	}
}

// closeDirect takes a sandbox of the nat mode off the network.
func (a *Attached) closeDirect() error {
	d := a.directly()
	if d == nil {
		return nil
	}
	d.stop()
	return errors.Join(d.listener.Close(), d.port.Close())
}

// directly is nil for a sandbox with a gateway.
func (a *Attached) directly() *direct {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.direct
}
