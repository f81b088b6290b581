package engine

import (
	"sync"
	"testing"

	"aether/engine/access"
)

// TestRoomThatAnotherMakes: two want disk at once, and what one of them has give way, which
// takes a while, is enough for both.
func TestRoomThatAnotherMakes(t *testing.T) {
	r := newRights(access.Config{})
	one := access.Use{DiskBytes: 1}
	quota := access.Quota{DiskBytes: new(int64(2))}
	old := r.ledger.Hold("alice", one.Times(2))
	leaving, other := make(chan struct{}), make(chan struct{})
	var first sync.Once
	r.giveWay = func(string) (gave bool) {
		first.Do(func() {
			close(leaving)
			<-other
			old.Give()
			gave = true
		})
		return gave
	}
	take := func() error { _, err := r.ledger.Take("alice", quota, one, 0); return err }
	var both sync.WaitGroup
	both.Go(func() {
		if err := r.makeRoom("alice", take); err != nil {
			t.Error(err)
		}
	})
	<-leaving
	var refused sync.Once
	both.Go(func() {
		err := r.makeRoom("alice", func() error {
			defer refused.Do(func() { close(other) })
			return take()
		})
		if err != nil {
			t.Error(err)
		}
	})
	both.Wait()
}
