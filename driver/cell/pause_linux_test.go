package cell_test

import (
	"strconv"
	"testing"
	"time"

	"aether/sandbox"
)

func pauser(t testing.TB, instance sandbox.Instance) sandbox.Pauser {
	t.Helper()
	p, ok := instance.(sandbox.Pauser)
	if !ok {
		t.Fatal("a cell cannot be paused")
	}
	return p
}

// countingCell runs a command that counts in a file.
func countingCell(t *testing.T) (sandbox.Instance, func() int) {
	t.Helper()
	needRoot(t, "cgroups to freeze")
	instance := newCell(t, sandbox.Spec{})
	start(t, instance, "cd /tmp; n=0; while true; do n=$((n + 1)); echo $n > next; mv next count; done")
	c := client(t, instance)
	return instance, func() int {
		t.Helper()
		file, err := c.Read(t.Context(), "/tmp/count")
		if sandbox.ClassOf(err) == sandbox.NotFound {
			return 0 // it has not begun
		}
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		text := make([]byte, 20)
		n, _ := file.Read(text)
		count, err := strconv.Atoi(string(text[:max(n-1, 0)]))
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
}

func TestPauseAndResume(t *testing.T) {
	instance, count := countingCell(t)
	p := pauser(t, instance)
	if !eventually(5*time.Second, func() bool { return count() > 0 }) {
		t.Fatal("it does not count")
	}
	wantClass(t, p.Resume(t.Context()), sandbox.Conflict, "")
	if err := p.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantClass(t, p.Pause(t.Context()), sandbox.Conflict, "")
	before := count()
	time.Sleep(50 * time.Millisecond)
	if now := count(); now != before {
		t.Errorf("a paused cell counted from %d to %d", before, now)
	}
	if err := p.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !eventually(5*time.Second, func() bool { return count() > before }) {
		t.Error("a resumed cell does not go on")
	}
}

func TestDestroyWhilePaused(t *testing.T) {
	instance, _ := countingCell(t)
	if err := pauser(t, instance).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	destroy(t, instance)
	if exit, err := instance.Wait(t.Context()); err != nil || exit.Cause != sandbox.Destroyed {
		t.Errorf("%+v, %v", exit, err)
	}
}

func TestLifetimeExpiresWhilePaused(t *testing.T) {
	needRoot(t, "cgroups to freeze")
	expiring(t, func(instance sandbox.Instance) error { return pauser(t, instance).Pause(t.Context()) })
}

func TestPauseWithoutGroupsIsUnavailable(t *testing.T) {
	if !ordinary() {
		t.Skip("root has cgroups")
	}
	instance := newCell(t, sandbox.Spec{})
	wantClass(t, pauser(t, instance).Pause(t.Context()), sandbox.Unavailable, "")
}

// TestPauseBeforeAStandby: a moment after a command has started in a cell that was warm, a
// process begins to stand by for the next one. Where the cell is paused by then, nobody
// waits for that process, which could not begin.
func TestPauseBeforeAStandby(t *testing.T) {
	needRoot(t, "cgroups to freeze")
	driver, _ := newDriverAhead(t, 2)
	for range 4 {
		instance := create(t, driver, sandbox.Spec{})
		time.Sleep(50 * time.Millisecond) // until the next one is warm
		start(t, instance, "exec sleep 1000")
		if err := pauser(t, instance).Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Millisecond)
		told := make(chan error, 1)
		go func() { _, err := instance.Stats(t.Context()); told <- err }()
		select {
		case err := <-told:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience(10 * time.Second)):
			t.Error("a paused cell does not tell what it uses")
		}
		if err := pauser(t, instance).Resume(t.Context()); err != nil {
			t.Error(err)
		}
		if got := sh(t, instance, "echo on"); got != "on" {
			t.Errorf("it says %q", got)
		}
	}
}
