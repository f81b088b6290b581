package engine_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"

	"aether/engine"
	"aether/internal/soak"
	"aether/sandbox"
)

// TestFullDiskAtEveryWrite: a disk that is full for one write fails the call, as
// exhausted, or nothing; and what was answered holds, now and for the next engine.
func TestFullDiskAtEveryWrite(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	stride := int64(soak.Count(2, 1)) // usually, half of them, beginning anywhere
	step, failures := rand.N(stride), 0
	for met := true; met; step += stride {
		var writes atomic.Int64
		opts := h.options().BeforeWrite(func() error {
			if writes.Add(1) == step+1 {
				return syscall.ENOSPC
			}
			return nil
		})
		opts.Logger = slog.New(slog.DiscardHandler) // which is told of what nobody is answered
		e, err := engine.Open(opts)
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		last := map[string]answer{}
		for n := range 2 {
			if err := h.tryLife(e, fmt.Sprintf("%d-%d", step, n), last); err != nil {
				failures++
				wantClass(t, err, sandbox.Exhausted)
			}
		}
		if _, err := e.Create(t.Context(), alice, engine.CreateRequest{}); err != nil {
			create(t, e, alice, engine.CreateRequest{}) // there is room again
		}
		met = writes.Load() > step
		h.close(e)
		h.compare(last, nil)
	}
	if step < 30 || failures < 5 {
		t.Errorf("there were %d steps, of which %d failed a call", step, failures)
	}
}

// tryLife does to a sandbox what can be done until something fails, and notes what was
// answered.
func (h *house) tryLife(e *engine.Engine, key string, last map[string]answer) error {
	ctx := h.t.Context()
	s, err := e.Create(ctx, alice, engine.CreateRequest{Key: key})
	if err != nil {
		return err
	}
	last[s.ID] = answer{Verb: "create", Key: key, Sandbox: s}
	if _, err = e.Snapshot(ctx, alice, s.ID, snapshotOf(key)); err != nil {
		return err
	}
	if _, err = e.Pause(ctx, alice, s.ID, ""); err != nil {
		return err
	}
	last[s.ID] = answer{Verb: "pause", Key: key, Sandbox: s}
	if key[len(key)-1] == '0' {
		return nil
	}
	if _, err = e.Resume(ctx, alice, s.ID, ""); err != nil {
		return err
	}
	last[s.ID] = answer{Verb: "resume", Key: key, Sandbox: s}
	if err = e.Destroy(ctx, alice, s.ID); err != nil {
		return err
	}
	last[s.ID] = answer{Verb: "destroy", Key: key, Sandbox: s}
	return nil
}
