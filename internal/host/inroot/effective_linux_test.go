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
			if err := c.id.setEffective(c.groups); err != nil {
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
