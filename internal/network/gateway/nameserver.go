package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"aether/network/policy"
	"aether/sandbox"

	"golang.org/x/net/dns/dnsmessage"
)

// NameServerOptions are for one sandbox.
type NameServerOptions struct {
	Policy policy.Policy
	Way    *Way
	// Admit is given the addresses of an allowed name and gives those that the sandbox may
	// reach, once it can. It may wait.
	Admit   func(ctx context.Context, name string, list []netip.Addr) ([]netip.Addr, error)
	Decided func(sandbox.NetworkDecision)
	Logger  *slog.Logger
}

// NameServer answers the questions of a sandbox that reaches hosts by itself: with their
// real addresses.
type NameServer struct {
	opts      NameServerOptions
	policy    atomic.Pointer[policy.Policy]
	asked     *pace
	slots     chan struct{} // one for each question that is being answered
	datagrams net.PacketConn
	ctx       context.Context
	cancel    context.CancelFunc
	work      sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	closed   bool
}

const (
	// maxAsked is how many questions of a sandbox are answered at once.
	maxAsked = 64
	// maxAddresses is how many a name has: an answer is short enough for a datagram.
	maxAddresses = 12
)

// NewNameServer begins to answer datagrams, until Close, which closes their socket.
func NewNameServer(datagrams net.PacketConn, opts NameServerOptions) *NameServer {
	s := &NameServer{opts: opts, asked: newPace(wideRate, wideBurst), slots: make(chan struct{}, maxAsked), datagrams: datagrams}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.policy.Store(&opts.Policy)
	s.work.Go(s.serveDatagrams)
	return s
}

// Listen answers connections too.
func (s *NameServer) Listen(l net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.listener != nil {
		return l.Close()
	}
	s.listener = l
	s.work.Go(func() { s.serveConnections(l) })
	return nil
}

// Set changes the policy at once.
func (s *NameServer) Set(p policy.Policy) error {
	s.policy.Store(&p)
	return nil
}

// Authority is nil: nothing of what the sandbox sends is opened.
func (s *NameServer) Authority() []byte { return nil }

// Close ends all questions.
func (s *NameServer) Close() error {
	s.cancel()
	s.mu.Lock()
	s.closed = true
	err := s.datagrams.Close()
	if s.listener != nil {
		err = errors.Join(err, s.listener.Close())
	}
	s.mu.Unlock()
	s.work.Wait()
	return err
}

// begin takes a place for one more question, if there is one.
func (s *NameServer) begin() bool {
	select {
	case s.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *NameServer) end() { <-s.slots }

func (s *NameServer) serveDatagrams() {
	buf := make([]byte, maxQuestion)
	for {
		n, from, err := s.datagrams.ReadFrom(buf)
		if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || !s.begin() {
			continue // an error is of one datagram; who asks too much asks again
		}
		question := append([]byte{}, buf[:n]...)
		s.work.Go(func() {
			defer s.end()
			if reply := s.answer(question); reply != nil {
				_, _ = s.datagrams.WriteTo(reply, from) // whoever does not get it asks again
			}
		})
	}
}

func (s *NameServer) serveConnections(l net.Listener) {
	for {
		conn, err := l.Accept()
		switch {
		case s.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(dnsIdle / 100) // no descriptors, most of all
			continue
		case !s.begin():
			conn.Close()
			continue
		}
		s.work.Go(func() {
			defer s.end()
			defer conn.Close()
			stop := context.AfterFunc(s.ctx, func() { conn.Close() })
			defer stop()
			answerStream(conn, s.answer)
		})
	}
}

func (s *NameServer) answer(question []byte) []byte { return answerTo(question, s.opts.Logger, s.fill) }

// fill puts into a reply the addresses that a name has and the sandbox may reach. Of other
// types there is nothing.
func (s *NameServer) fill(reply *dnsmessage.Message, asked dnsmessage.Question) {
	name, err := sandbox.ParseHostName(asked.Name.String())
	if err != nil || asked.Type == dnsmessage.TypePTR {
		reply.RCode = dnsmessage.RCodeNameError
		return
	}
	list, code := lookups{ctx: s.ctx, policy: *s.policy.Load(), way: s.opts.Way, asked: s.asked, tell: s.tell}.look(name)
	if reply.RCode = code; code != dnsmessage.RCodeSuccess || asked.Type != dnsmessage.TypeA {
		return
	}
	if list, err = s.admit(name, list); err != nil {
		s.opts.Logger.Debug("gateway: an address was not admitted", "err", err)
		reply.RCode = dnsmessage.RCodeServerFailure
		return
	}
	for _, a := range list[:min(len(list), maxAddresses)] {
		reply.Answers = append(reply.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: asked.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: lifetimeOfAnswers},
			Body:   &dnsmessage.AResource{A: a.As4()},
		})
	}
}

// admit has the sandbox reach addresses of a name.
func (s *NameServer) admit(name string, list []netip.Addr) (admitted []netip.Addr, err error) {
	var four []netip.Addr
	for _, a := range list {
		if a = a.Unmap(); a.Is4() {
			four = append(four, a)
		}
	}
	if len(four) == 0 {
		return nil, nil
	}
	if list, err = s.opts.Admit(s.ctx, name, four[:min(len(four), maxAddresses)]); err != nil {
		return nil, err
	}
	for _, a := range list {
		if a.Is4() {
			admitted = append(admitted, a)
		}
	}
	if len(admitted) == 0 {
		s.tell(sandbox.NetworkDecision{Verdict: sandbox.VerdictDenied, Kind: "dns", Name: name, Address: four[0], Reason: "none of its addresses is allowed"})
	}
	return admitted, nil
}

func (s *NameServer) tell(d sandbox.NetworkDecision) {
	if s.opts.Decided != nil {
		d.Time = time.Now()
		s.opts.Decided(d)
	}
}
