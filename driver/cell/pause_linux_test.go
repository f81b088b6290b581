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
	instance := newCell(t, sandbox.Spec{Timeouts: sandbox.Timeouts{Lifetime: time.Second}})
	if err := pauser(t, instance).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit, err := instance.Wait(t.Context()); err != nil || exit.Cause != sandbox.Expired {
		t.Errorf("%+v, %v", exit, err)
	}
}

func TestPauseWithoutGroupsIsUnavailable(t *testing.T) {
	if !ordinary() {
		t.Skip("root has cgroups")
	}
	instance := newCell(t, sandbox.Spec{})
	wantClass(t, pauser(t, instance).Pause(t.Context()), sandbox.Unavailable, "")
}
