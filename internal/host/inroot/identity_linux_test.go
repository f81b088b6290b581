package inroot

import (
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestEffectiveIDs: a thread becomes somebody else, and comes back.
func TestEffectiveIDs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	done := make(chan struct{})
	go func() { // on a thread that is thrown away
		defer close(done)
		runtime.LockOSThread()
		groups, err := unix.Getgroups()
		if err != nil {
			t.Error(err)
		}
		own, other := Identity{0, os.Getegid()}, Identity{1234, 5678}
		for _, c := range []struct {
			id     Identity
			groups []int
		}{{other, nil}, {own, groups}} {
			if err := c.id.set(c.groups); err != nil {
				t.Errorf("%+v: %v", c.id, err)
			}
			has, err := unix.Getgroups()
			if got := (Identity{unix.Geteuid(), unix.Getegid()}); got != c.id || err != nil || !slices.Equal(has, c.groups) {
				t.Errorf("it is %+v in %v, want %+v in %v (%v)", got, has, c.id, c.groups, err)
			}
		}
	}()
	<-done
}

// TestNoCapabilities: whoever root becomes for a call has none, and root has its own
// back afterwards.
func TestNoCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	inEffect := func() (all uint64) {
		c, err := threadCapabilities()
		if err != nil {
			t.Error(err)
		}
		return uint64(c[1].Effective)<<32 | uint64(c[0].Effective)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // so that the thread of this goroutine is not the one that changes
		own := inEffect()
		for range 100 {
			err := Identity{1234, 5678}.Do(func() error {
				if has := inEffect(); has != 0 || unix.Geteuid() != 1234 {
					t.Errorf("user %d has %#x", unix.Geteuid(), has)
				}
				return nil
			})
			after := make(chan uint64)
			go func() { after <- inEffect() }() // on any thread, that one not excepted
			if has := <-after; err != nil || has != own {
				t.Errorf("%#x, and was %#x (%v)", has, own, err)
				return
			}
		}
	}()
	<-done
}

func BenchmarkDo(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("only root can be somebody else")
	}
	for b.Loop() {
		if err := (Identity{1234, 5678}).Do(func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
