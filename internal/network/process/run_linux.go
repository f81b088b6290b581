// Package process is what the program aether-net does: it holds the gateways of all
// sandboxes of the program that started it, and nothing else. It ends with the connection
// to that.
package process

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"aether/internal/host/guestinit"
	"aether/internal/host/jail"
	"aether/internal/host/netdev"
	"aether/internal/host/seccomp"
	"aether/internal/network/control"
	"aether/internal/network/gateway"
	"aether/network/policy"
	"aether/sandbox"
)

// server holds the gateways.
type server struct {
	conn  *control.Conn
	log   *slog.Logger
	way   *gateway.Way
	mu    sync.Mutex
	boxes map[uint64]*box
}

// box is a sandbox: a gateway of its own, or a name server.
type box struct {
	served
	told   teller
	asks   *asker         // nil for a gateway
	stream *netdev.Stream // nil for a gateway whose device is on this host
}

type served interface {
	Set(policy.Policy) error
	Authority() []byte
	Close() error
}

// Run serves the owner that a descriptor connects to, until that is gone.
func Run(descriptor uintptr, log *slog.Logger) error {
	file := os.NewFile(descriptor, "control")
	conn, err := net.FileConn(file)
	if err != nil {
		return errors.Join(fmt.Errorf("aether-net: this program is started by aether alone: %w", err), file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.Join(errors.New("aether-net: this program is started by aether alone"), conn.Close())
	}
	if err := jail.Hide(); err != nil {
		return errors.Join(fmt.Errorf("aether-net: %w", err), conn.Close())
	}
	if err := confine(); err != nil {
		return errors.Join(fmt.Errorf("aether-net: %w", err), conn.Close())
	}
	s := &server{conn: control.New(unix), log: log, boxes: map[uint64]*box{}}
	err = s.serve()
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// confine leaves this program with the few system calls that it needs. Its jail was made
// by who started it.
func confine() error {
	filter, err := seccomp.Only(seccomp.NetworkCalls)
	if err != nil {
		return err
	}
	return guestinit.Filter(filter)
}

func (s *server) serve() error {
	for {
		r, file, err := s.conn.ReadRequest()
		if err != nil {
			return err
		}
		if r.Hello != nil {
			s.way = wayOf(*r.Hello)
			continue
		}
		if r.Op == control.Admit {
			if b := s.find(r.ID); b != nil && b.asks != nil {
				b.asks.admitted(r.Number, r.Admitted)
			}
			continue
		}
		answer := control.Message{Seq: r.Seq}
		if err := s.do(r, file); err != nil {
			answer.Error = err.Error()
		} else if b := s.find(r.ID); b != nil {
			answer.Authority = b.Authority()
		}
		if err := s.conn.Write(answer, nil); err != nil {
			return err
		}
	}
}

// wayOf is how hosts are reached, and whom they are believed by: nobody, if there are no
// roots.
func wayOf(h control.Hello) *gateway.Way {
	w := &gateway.Way{Servers: h.Servers, Hosts: h.Hosts, Roots: x509.NewCertPool()}
	w.Roots.AppendCertsFromPEM(h.Roots)
	return w
}

func (s *server) do(r control.Request, file *os.File) error {
	switch r.Op {
	case control.Attach:
		if (file == nil) != r.Stream {
			return errors.Join(errors.New("no device came, or one that nobody waits for"), closeFile(file))
		}
		return s.attach(r, file)
	case control.Plug:
		if file == nil {
			return errors.New("no stream came")
		}
		return s.plug(r.ID, file)
	case control.Listen:
		if file == nil {
			return errors.New("no socket came")
		}
		return s.listen(r.ID, file)
	case control.Set:
		b := s.find(r.ID)
		if b == nil {
			return errors.New("no such sandbox")
		}
		return b.Set(r.Policy)
	case control.Tell:
		if b := s.find(r.ID); b != nil {
			b.told.flush()
		}
		return nil
	case control.Detach:
		return s.detach(r.ID)
	default:
		return fmt.Errorf("%q is no operation", r.Op)
	}
}

func (s *server) find(id uint64) *box {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.boxes[id]
}

func (s *server) attach(r control.Request, file *os.File) error {
	if s.find(r.ID) != nil { // it came with all others, and by itself
		return closeFile(file)
	}
	b := &box{told: teller{server: s, id: r.ID}}
	serve := b.serveDevice
	switch {
	case r.Direct:
		serve = b.serveNames
	case r.Stream:
		serve = b.serveStream
	}
	if err := serve(s, r, file); err != nil {
		return err
	}
	s.mu.Lock()
	s.boxes[r.ID] = b
	s.mu.Unlock()
	return nil
}

// serveDevice has a gateway at the other end of the sandbox's device.
func (b *box) serveDevice(s *server, r control.Request, file *os.File) error {
	device, err := netdev.NewDevice(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	return b.serveGateway(s, r, device)
}

func (b *box) serveGateway(s *server, r control.Request, device gateway.Device) (err error) {
	b.served, err = gateway.New(device, gateway.Options{Tap: r.Tap, Policy: r.Policy, Key: r.Key, Way: s.way, Decided: b.told.add, Renewed: b.told.renew, Logger: s.log})
	return err
}

func (s *server) detach(id uint64) error {
	s.mu.Lock()
	b := s.boxes[id]
	delete(s.boxes, id)
	s.mu.Unlock()
	if b == nil {
		return nil
	}
	err := b.Close()
	b.told.flush()
	return err
}

// teller gathers decisions, so that a sandbox that makes many does not wake others for
// each.
type teller struct {
	server *server
	id     uint64
	mu     sync.Mutex
	list   []sandbox.NetworkDecision
	missed int64
	why    string // a stream has ended
	timer  *time.Timer
	// telling is held while some are told: nobody says that all were before that.
	telling sync.Mutex
}

const (
	tellEvery = 100 * time.Millisecond
	maxTold   = 200 // of one sandbox, in that time
)

func (t *teller) add(d sandbox.NetworkDecision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.list) >= maxTold {
		t.missed++
		return
	}
	t.list = append(t.list, d)
	t.soon()
}

// soon is called with the lock held.
func (t *teller) soon() {
	if t.timer == nil {
		t.timer = time.AfterFunc(tellEvery, t.flush)
	}
}

// renew tells of another certificate. Who renews does not wait for it to be sent.
func (t *teller) renew(certificate []byte) {
	go func() {
		if err := t.server.conn.Write(control.Message{ID: t.id, Authority: certificate}, nil); err != nil {
			t.server.log.Debug("aether-net: a certificate was not told", "err", err)
		}
	}()
}

func (t *teller) flush() {
	t.telling.Lock()
	defer t.telling.Unlock()
	t.mu.Lock()
	m := control.Message{ID: t.id, Decisions: t.list, Missed: t.missed, Unplugged: t.why}
	t.list, t.missed, t.why, t.timer = nil, 0, "", nil
	t.mu.Unlock()
	if len(m.Decisions) == 0 && m.Unplugged == "" {
		return
	}
	if err := t.server.conn.Write(m, nil); err != nil {
		t.server.log.Debug("aether-net: decisions were not told", "err", err)
	}
}
