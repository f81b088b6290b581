package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"aether/internal/host/netdev"
	"aether/network/policy"
	"aether/sandbox"

	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// Options are for one sandbox.
type Options struct {
	// Tap is the sandbox's device.
	Tap    netdev.Tap
	Policy policy.Policy
	// Way is how hosts are reached.
	Way *Way
	// Key is what the authority is made of: the same makes the same.
	Key []byte
	// Decided is told of every decision. It must not wait.
	Decided func(sandbox.NetworkDecision)
	// Renewed is given the authority's certificate when there is another that nobody asked
	// for. It must not wait.
	Renewed func(certificate []byte)
	Logger  *slog.Logger
}

// Gateway is one sandbox's.
type Gateway struct {
	opts   Options
	link   *link
	stack  *stack.Stack // nil until a packet has come; the link's until that has ended
	policy atomic.Pointer[policy.Policy]
	names  *names
	flows  *flows
	asked  *pace // questions of names that no rule has for itself
	rate   *pace // bytes of all connections
	ctx    context.Context
	cancel context.CancelFunc
	work   tasks

	setting   sync.Mutex
	authority atomic.Pointer[authority] // nil until rules are about requests

	dropped atomic.Int64
}

// New begins to serve a sandbox, until Close. The device is closed then.
func New(device Device, opts Options) (_ *Gateway, err error) {
	g := &Gateway{opts: opts, names: newNames(), asked: newPace(wideRate, wideBurst), rate: newPace(0, 0)}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.flows = newFlows(g)
	if err := g.Set(opts.Policy); err != nil {
		return nil, errors.Join(err, device.Close())
	}
	g.link = &link{device: device, tap: opts.Tap, first: g.raise, dropped: &g.dropped, ended: g.linkEnded}
	g.link.start()
	return g, nil
}

// linkEnded is called when the device gives nothing more: the sandbox is gone, or Close
// was called.
func (g *Gateway) linkEnded(err error) {
	if g.ctx.Err() == nil && !errors.Is(err, os.ErrClosed) {
		g.opts.Logger.Debug("gateway: the device has ended", "err", err)
	}
	g.cancel()
}

// Set changes the policy at once: connections that it does not allow are cut. An error
// leaves the one before.
func (g *Gateway) Set(p policy.Policy) error {
	g.setting.Lock()
	defer g.setting.Unlock()
	if err := g.certify(p); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	g.rate.set(float64(p.Rate), float64(p.Rate))
	g.policy.Store(&p)
	g.flows.recheck(p)
	return nil
}

// certify has an authority for the hosts that rules are about.
func (g *Gateway) certify(p policy.Policy) (err error) {
	if len(p.HTTP) == 0 {
		return nil
	}
	a := g.authority.Load()
	if a == nil {
		if a, err = newAuthority(g.opts.Key, g.opts.Renewed); err != nil {
			return err
		}
	}
	if err := a.forRules(p.HTTP); err != nil {
		return err
	}
	g.authority.Store(a)
	return nil
}

// Authority is the certificate, in PEM, that the sandbox has to trust, or nil while no
// rules are about requests.
func (g *Gateway) Authority() []byte {
	if a := g.authority.Load(); a != nil {
		return a.certificate()
	}
	return nil
}

// Ended is closed when the sandbox's end of the device is gone.
func (g *Gateway) Ended() <-chan struct{} { return g.ctx.Done() }

// Close ends all connections.
func (g *Gateway) Close() error {
	g.cancel()
	err := g.link.device.Close()
	g.link.reading.Wait()
	g.flows.closeAll()
	g.work.close()
	if g.stack != nil {
		g.stack.Close()
	}
	g.link.writing.close()
	return err
}
