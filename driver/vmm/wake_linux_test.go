package vmm

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// cutting is the way to a guest that cuts its first connections, as one does that hears that
// its old ones are gone when it has taken a new one.
type cutting struct {
	line
	address string
}

func (c cutting) await(context.Context, <-chan struct{}) error { return nil }

func (c cutting) Dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", c.address)
}

// TestWakeIsTriedAgain: a guest that cuts a connection is told once more, and one that cuts
// them all is given up with its machine.
func TestWakeIsTriedAgain(t *testing.T) {
	var told, cuts atomic.Int64
	address := filepath.Join(t.TempDir(), "guest")
	listener, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if told.Add(1); cuts.Add(-1) >= 0 {
			panic(http.ErrAbortHandler) // by which the connection ends
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	t.Cleanup(func() { server.Close() })
	go server.Serve(listener)
	m := &machine{engine: &engine{}, line: cutting{address: address}, process: &process{over: make(chan struct{}), ended: make(chan struct{})}}
	cuts.Store(2)
	if err := m.wake(t.Context()); err != nil || told.Load() != 4 {
		t.Errorf("told %d times, %v", told.Load(), err)
	}
	cuts.Store(1 << 40)
	close(m.process.over)
	if err := m.wake(t.Context()); err == nil || !isCut(err) {
		t.Errorf("of a guest that cuts every connection: %v", err)
	}
}
