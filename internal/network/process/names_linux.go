package process

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"aether/internal/network/control"
	"aether/internal/network/gateway"
)

// serveNames answers the questions about names of a sandbox that reaches hosts by itself.
func (b *box) serveNames(s *server, r control.Request, file *os.File) error {
	datagrams, err := net.FilePacketConn(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	b.asks = &asker{server: s, id: r.ID, waiting: map[uint64]chan []netip.Addr{}}
	b.served = gateway.NewNameServer(datagrams, gateway.NameServerOptions{Policy: r.Policy, Way: s.way, Admit: b.asks.admit, Decided: b.told.add, Logger: s.log})
	return nil
}

// listen has a name server take connections too.
func (s *server) listen(id uint64, file *os.File) error {
	b := s.find(id)
	if b == nil || b.asks == nil {
		return errors.Join(errors.New("no such name server"), file.Close())
	}
	listener, err := net.FileListener(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return b.served.(*gateway.NameServer).Listen(listener)
}

// asker asks the owner which addresses of names a sandbox may reach: it is the owner who
// sees to that.
type asker struct {
	server  *server
	id      uint64
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan []netip.Addr
}

// admitTime is how long the owner may take.
const admitTime = 5 * time.Second

func (a *asker) admit(ctx context.Context, name string, list []netip.Addr) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, admitTime)
	defer cancel()
	wait := make(chan []netip.Addr, 1)
	a.mu.Lock()
	a.last++
	number := a.last
	a.waiting[number] = wait
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.waiting, number)
		a.mu.Unlock()
	}()
	if err := a.server.conn.Write(control.Message{ID: a.id, Question: &control.Question{Number: number, Name: name, Addresses: list}}, nil); err != nil {
		return nil, err
	}
	select {
	case list := <-wait:
		return list, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (a *asker) admitted(number uint64, list []netip.Addr) {
	a.mu.Lock()
	wait := a.waiting[number]
	delete(a.waiting, number)
	a.mu.Unlock()
	if wait != nil {
		wait <- list
	}
}
