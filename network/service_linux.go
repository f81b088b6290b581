package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"

	"aether/internal/host/nat"
	"aether/internal/host/netdev"
	"aether/internal/network/control"
	"aether/network/policy"
	"aether/sandbox"
)

// Service gives sandboxes their networks. Its process is started for the first.
type Service struct {
	opts Options
	log  *slog.Logger

	routing  sync.Mutex  // held while the router is made
	router   *nat.Router // of the sandboxes of the nat mode; nil before the first
	starting sync.Mutex  // held while a process is started
	mu       sync.Mutex
	process  *process
	attached map[uint64]*Attached
	last     uint64
	closed   bool
}

// New makes a service. Close must follow.
func New(opts Options) *Service {
	log := opts.Logger
	if log == nil {
		log = slog.Default()
	}
	return &Service{opts: opts, log: log, attached: map[uint64]*Attached{}}
}

// Attached is one sandbox on its network.
type Attached struct {
	service *Service
	id      uint64
	device  *os.File
	tap     netdev.Tap
	direct  *direct // nil for one with a gateway; its device is a socket then
	log     *decisionLog
	// open makes the way to a device that is not on this host; nil for others, which have
	// device. It is called by one at a time.
	open     OpenStream
	plugging sync.Mutex

	mu sync.Mutex
	// plugged says that there was such a way once, and unplugged that there is none now.
	plugged, unplugged bool
	// begun says that it has a gateway: before that nothing is known but its device.
	begun     bool
	key       AuthorityKey
	network   sandbox.Network
	policy    policy.Policy // what it was compiled to
	authority []byte
	trusting  func(certificate []byte)
}

var errClosed = &sandbox.Error{Class: sandbox.Conflict, Op: "network", Reason: "the service is closed"}

// Compile makes the policy of a Network, which is valid and of the egress mode, with the
// secrets of the context that it names. Errors: those of policy.Compile.
func (s *Service) Compile(ctx context.Context, n sandbox.Network) (policy.Policy, error) {
	return policy.Compile(ctx, n, s.opts.Lists, sandbox.SecretsOf(ctx))
}

// prepare makes the device of a sandbox, with addresses that no other of this service has,
// in the net namespace at the end of a way. Nobody is at its other end yet. Close must
// follow.
func (s *Service) prepare(way netdev.Way) (*Attached, error) {
	a, err := s.reserve()
	if err != nil {
		return nil, err
	}
	device, err := a.tap.Open(way)
	if err != nil {
		return nil, errors.Join(unenterable(err), a.Close())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.device = device
	return a, nil
}

// reserve gives a sandbox its place on the network. Close must follow.
func (s *Service) reserve() (*Attached, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	for s.last++; s.last >= tapNumbers && s.taken(tapOf(s.last).Address); {
		s.last++
	}
	a := &Attached{service: s, id: s.last, log: newDecisionLog(), tap: tapOf(s.last)}
	s.attached[a.id] = a
	return a, nil
}

// taken says whether a sandbox has an address.
func (s *Service) taken(address netip.Addr) bool {
	for _, a := range s.attached {
		if a.tap.Address == address {
			return true
		}
	}
	return false
}

// begin has a gateway at the other end of the device. It is called once.
func (a *Attached) begin(ctx context.Context, n sandbox.Network, p policy.Policy, key AuthorityKey) error {
	a.mu.Lock()
	a.network, a.policy, a.key, a.begun = n, p, key.orNew(), true
	a.mu.Unlock()
	return a.ask(ctx, control.Attach)
}

// set changes the policy at once.
func (a *Attached) set(ctx context.Context, n sandbox.Network, p policy.Policy) error {
	a.mu.Lock()
	a.network, a.policy = n, p
	a.mu.Unlock()
	if d := a.directly(); d != nil {
		if err := d.set(p); err != nil {
			return err
		}
	}
	return a.ask(ctx, control.Set)
}

// Decisions gives what was decided up to this moment: see sandbox.NetworkLog.
// Nil is a sandbox that is on no network of a service's.
func (a *Attached) Decisions(ctx context.Context) (list []sandbox.NetworkDecision, missed int64, err error) {
	if a == nil {
		return nil, 0, &sandbox.Error{Class: sandbox.Unsupported, Op: "network", Reason: "the sandbox has no network of its own, about which anything is decided"}
	}
	a.service.mu.Lock()
	p := a.service.process
	a.service.mu.Unlock()
	if p != nil {
		if _, err := p.ask(ctx, a.request(control.Tell), nil); err != nil && !errors.Is(err, errGone) {
			return nil, 0, fmt.Errorf("network: %w", err)
		}
	}
	list, missed = a.log.list()
	return list, missed, nil
}

// Close takes the sandbox off the network.
func (a *Attached) Close() error {
	s := a.service
	known, p := s.forget(a)
	if !known {
		return nil
	}
	var err error
	a.mu.Lock()
	device, begun := a.device, a.begun
	a.mu.Unlock()
	if p != nil && begun {
		if _, err = p.ask(context.Background(), a.request(control.Detach), nil); errors.Is(err, errGone) {
			err = nil // and so is what it held
		}
	}
	if device != nil {
		err = errors.Join(err, device.Close(), a.closeDirect())
	}
	return err
}

// forget says whether a sandbox was attached, which it is not from now on, and gives the
// process that may have it. One that is being started is waited for: it may be given the
// sandbox's device at this moment, and would keep it.
func (s *Service) forget(a *Attached) (known bool, p *process) {
	s.starting.Lock()
	defer s.starting.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known = s.attached[a.id]
	delete(s.attached, a.id)
	return known, s.process
}

func (a *Attached) request(op string) control.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := control.Request{Op: op, ID: a.id}
	if op == control.Attach || op == control.Set {
		r.Policy, r.Tap, r.Key, r.Direct, r.Stream = a.policy, a.tap, a.key, a.direct != nil, a.open != nil
	}
	return r
}

// ask sends a request to the process. One that dies meanwhile is started again, with
// everything that is attached.
func (a *Attached) ask(ctx context.Context, op string) error {
	p, fresh, err := a.service.running()
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if !fresh {
		err := a.send(ctx, p, op)
		if !errors.Is(err, errGone) {
			return err
		}
		if _, _, err = a.service.running(); err != nil {
			return fmt.Errorf("network: %w", err)
		}
	}
	return nil
}

// send sends a request, which has the sandbox's descriptors if it attaches.
func (a *Attached) send(ctx context.Context, p *process, op string) error {
	a.mu.Lock()
	device := a.device
	a.mu.Unlock()
	if op != control.Attach {
		device = nil
	}
	answer, err := p.ask(ctx, a.request(op), device)
	if d := a.directly(); err == nil && device != nil && d != nil {
		_, err = p.ask(ctx, a.request(control.Listen), d.listener)
	}
	if err == nil {
		a.trust(answer.Authority)
	}
	return err
}

// running gives the process, and starts it, with all that is attached, if there is none.
// What the process says meanwhile is heard: that needs the other lock.
func (s *Service) running() (_ *process, fresh bool, err error) {
	s.starting.Lock()
	defer s.starting.Unlock()
	s.mu.Lock()
	p, closed := s.process, s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return nil, false, errClosed
	case p != nil && !p.ended():
		return p, false, nil
	}
	if p, err = startProcess(s.log, s.hello(), s.heard); err != nil {
		return nil, false, err
	}
	if err := s.attachAll(p); err != nil {
		return nil, false, errors.Join(err, p.stop())
	}
	s.mu.Lock()
	if closed = s.closed; !closed {
		s.process = p
	}
	s.mu.Unlock()
	if closed { // what it says meanwhile is heard
		return nil, false, errors.Join(errClosed, p.stop())
	}
	go s.watch(p)
	return p, true, nil
}

// attachAll has a new process have all sandboxes.
func (s *Service) attachAll(p *process) error {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.attached))
	s.mu.Unlock()
	for _, a := range all {
		a.mu.Lock()
		begun := a.begun
		a.mu.Unlock()
		if !begun {
			continue
		}
		if err := a.send(context.Background(), p, control.Attach); err != nil {
			return err
		}
		a.replugLater()
	}
	return nil
}

// watch starts the process again when it dies: sandboxes that live want their network.
func (s *Service) watch(p *process) {
	<-p.gone
	s.mu.Lock()
	wanted := !s.closed && s.process == p && len(s.attached) > 0
	s.mu.Unlock()
	if !wanted {
		return
	}
	s.log.Warn("network: the process of the gateways has ended, and is started again", "err", p.reason())
	if _, _, err := s.running(); err != nil {
		s.log.Error("network: sandboxes have no network", "err", err)
	}
}

// heard notes what was decided about a sandbox.
func (s *Service) heard(from *process, m control.Message) {
	s.mu.Lock()
	a := s.attached[m.ID]
	s.mu.Unlock()
	if a == nil {
		return
	}
	if d := a.directly(); d != nil && m.Question != nil {
		d.ask(question{*m.Question, from})
	}
	if m.Unplugged != "" {
		a.wasUnplugged(m.Unplugged)
	}
	a.trust(m.Authority)
	a.log.miss(m.Missed)
	for _, d := range m.Decisions {
		a.log.add(d)
	}
}

// Close ends the network of all sandboxes.
func (s *Service) Close() error {
	s.mu.Lock()
	s.closed = true
	p, all := s.process, s.attached
	s.attached = map[uint64]*Attached{}
	s.mu.Unlock()
	var errs []error
	for _, a := range all {
		if a.device != nil {
			errs = append(errs, a.device.Close(), a.closeDirect())
		}
	}
	if p != nil {
		errs = append(errs, p.stop())
	}
	s.routing.Lock()
	defer s.routing.Unlock()
	if s.router != nil {
		errs = append(errs, s.router.Close())
	}
	return errors.Join(errs...)
}

const (
	deviceName = "eth0"
	mtu        = 65520
	tapNumbers = 65000
)

// gatewayAddress is every sandbox's gateway and name server; sandboxesFrom is where
// sandboxes have theirs, in a range that no host has.
var (
	gatewayAddress = netip.MustParseAddr(sandbox.Gateway)
	sandboxesFrom  = uint32(198<<24 | 18<<16)
)

// tapOf is the device of the nth sandbox. After 65,000 others its addresses are used
// again.
func tapOf(n uint64) netdev.Tap {
	number := sandboxesFrom + uint32(n%tapNumbers) + 256
	return netdev.Tap{
		Name:            deviceName,
		Address:         netip.AddrFrom4([4]byte{byte(number >> 24), byte(number >> 16), byte(number >> 8), byte(number)}),
		Gateway:         gatewayAddress,
		Hardware:        netdev.HardwareAddr{2, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)},
		GatewayHardware: netdev.HardwareAddr{2, 1, 0, 0, 0, 1},
		MTU:             mtu,
	}
}
