package network

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"aether/internal/host/launch"
	"aether/internal/network/control"
)

// TestAskForgets: a question that was given up, and one that could not be asked, are
// waited for by nobody.
func TestAskForgets(t *testing.T) {
	ours, theirs, err := launch.SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close() // which never answers
	p := &process{conn: control.New(ours), gone: make(chan struct{}), waiting: map[uint64]chan control.Message{}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := p.ask(ctx, control.Request{Op: control.Tell}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer: %v", err)
	}
	if err := p.conn.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ask(t.Context(), control.Request{Op: control.Tell}, nil); !errors.Is(err, errGone) {
		t.Errorf("no connection: %v", err)
	}
	if len(p.waiting) > 0 {
		t.Errorf("%d answers are waited for", len(p.waiting))
	}
}

// TestCloseWhileStarted: a sandbox that is closed while a process is started again, which may
// have been given its device, is taken off the new one.
func TestCloseWhileStarted(t *testing.T) {
	ours, theirs, err := launch.SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	conn, err := net.FileConn(theirs)
	if err != nil {
		t.Fatal(err)
	}
	gateways := control.New(conn.(*net.UnixConn))
	defer gateways.Close()
	s := New(Options{})
	a, err := s.reserve()
	if err != nil {
		t.Fatal(err)
	}
	a.begun = true
	p := &process{conn: control.New(ours), gone: make(chan struct{}), waiting: map[uint64]chan control.Message{}}
	defer p.conn.Close()
	s.starting.Lock()
	closed := make(chan error, 1)
	go func() { closed <- a.Close() }()
	select {
	case <-closed:
		t.Fatal("the process that is started was not waited for")
	case <-time.After(20 * time.Millisecond):
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	s.starting.Unlock()
	r, _, err := gateways.ReadRequest()
	if err != nil || r.Op != control.Detach || r.ID != a.id {
		t.Fatalf("%+v, %v", r, err)
	}
	p.mu.Lock()
	wait := p.waiting[r.Seq]
	p.mu.Unlock()
	wait <- control.Message{Seq: r.Seq}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
