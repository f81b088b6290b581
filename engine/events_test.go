package engine

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"aether/engine/state"
	"aether/sandbox"
)

func openTestHistory(t *testing.T, path string) (*history, func()) {
	t.Helper()
	dir, err := state.Open(path, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	h, err := openHistory(dir)
	if err != nil {
		t.Fatal(err)
	}
	return h, func() {
		if err := errors.Join(h.journal.Close(), dir.Close()); err != nil {
			t.Error(err)
		}
	}
}

func happen(t *testing.T, h *history, tenants ...string) {
	t.Helper()
	for _, tenant := range tenants {
		if err := h.publish([]Event{{Time: time.Now(), Kind: EventCreated, Tenant: tenant, Sandbox: tenant + "s"}}); err != nil {
			t.Fatal(err)
		}
	}
}

// follow gives the numbers of the next events that a caller sees.
func follow(t *testing.T, h *history, who Caller, after uint64, count int, meanwhile func()) (numbers []uint64) {
	t.Helper()
	e := New(Options{})
	e.fleet = &fleet{history: h}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go meanwhile()
	for event, err := range e.Events(ctx, who, after) {
		if err != nil {
			t.Fatal(err)
		}
		if numbers = append(numbers, event.Number); len(numbers) == count {
			break
		}
	}
	return numbers
}

func wantNumbers(t *testing.T, got []uint64, want ...uint64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

// TestEventsGoOn: numbers grow over restarts, and who comes back is given what it missed.
func TestEventsGoOn(t *testing.T) {
	path := t.TempDir()
	h, done := openTestHistory(t, path)
	happen(t, h, "alice", "bob", "alice")
	done()
	h, done = openTestHistory(t, path)
	defer done()
	happen(t, h, "bob")
	wantNumbers(t, follow(t, h, Caller{Operator: true}, 0, 4, func() {}), 1, 2, 3, 4)
	wantNumbers(t, follow(t, h, Caller{Tenant: "alice"}, 0, 2, func() {}), 1, 3)
	wantNumbers(t, follow(t, h, Caller{Tenant: "bob"}, 2, 2, func() { happen(t, h, "alice", "bob") }), 4, 6)
	if _, _, err := h.after(99); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Error(err)
	}
}

// TestHistoryIsBounded: who comes back too late is told.
func TestHistoryIsBounded(t *testing.T) {
	h, done := openTestHistory(t, t.TempDir())
	defer done()
	for range 2*maxHistory + 10 {
		happen(t, h, "a")
	}
	if len(h.list) > 2*maxHistory {
		t.Errorf("%d are remembered", len(h.list))
	}
	if _, _, err := h.after(5); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Error(err)
	}
	if list, _, err := h.after(0); err != nil || len(list) != len(h.list) || list[len(list)-1].Number != 2*maxHistory+10 {
		t.Errorf("%d, %v", len(list), err)
	}
}

// TestMissingEvents: what a record tells and the journal does not is found.
func TestMissingEvents(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	last := map[string]Event{"a": {Time: at(5)}}
	for name, c := range map[string]struct {
		changes []Event
		oldest  time.Time
		want    int
	}{
		"told":                    {[]Event{{Sandbox: "a", Time: at(4)}, {Sandbox: "a", Time: at(5)}}, at(1), 0},
		"one of two is not":       {[]Event{{Sandbox: "a", Time: at(5)}, {Sandbox: "a", Time: at(6)}}, at(1), 1},
		"never heard of":          {[]Event{{Sandbox: "b", Time: at(3)}, {Sandbox: "b", Time: at(4)}}, at(1), 2},
		"older than the journal":  {[]Event{{Sandbox: "b", Time: at(3)}}, at(4), 0},
		"the journal has nothing": {[]Event{{Sandbox: "b", Time: at(3)}}, time.Time{}, 1},
	} {
		if got := missing(c.changes, last, c.oldest); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
