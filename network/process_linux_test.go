package network

import (
	"context"
	"errors"
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
