package engine_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/engine"
	"aether/sandbox"
)

// TestIdempotencyKeys: the same key gives the same sandbox, to many at once, after its
// end and after a restart; for another request it is a conflict, and what failed may be
// tried again.
func TestIdempotencyKeys(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	e := h.open()
	req := engine.CreateRequest{Key: "once", Metadata: map[string]string{"a": "b"}}
	ids := make([]string, 8)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			s, err := e.Create(t.Context(), alice, req)
			if err != nil {
				t.Error(err)
			}
			ids[i] = s.ID
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("one key gave %v", ids)
		}
	}
	if page, err := e.List(t.Context(), alice, engine.Query{}); err != nil || len(page.Sandboxes) != 1 {
		t.Errorf("there are %d, %v", len(page.Sandboxes), err)
	}
	other := req
	other.Metadata = nil
	_, err := e.Create(t.Context(), alice, other)
	wantClass(t, err, sandbox.Conflict)

	failing := engine.CreateRequest{Key: "again", Driver: "none-such"}
	_, err = e.Create(t.Context(), alice, failing)
	wantClass(t, err, sandbox.Invalid)
	failing.Driver = ""
	create(t, e, alice, failing)

	h.close(e)
	e = h.open()
	if s := create(t, e, alice, req); s.ID != ids[0] || s.State != engine.Ended || s.Exit.Cause != sandbox.Stopped {
		t.Errorf("after a restart: %+v", s)
	}
	_, err = e.Create(t.Context(), alice, other)
	wantClass(t, err, sandbox.Conflict)
}

// TestForkOfASandbox: children go on from where their source is, belong to its tenant and
// live on their own.
func TestForkOfASandbox(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("cells are forked on amd64 only")
	}
	e := newHouse(t, sandbox.Checkpoint).open()
	source := create(t, e, alice, engine.CreateRequest{Metadata: map[string]string{"is": "source"}}).ID
	sh(t, e, alice, source, "echo theirs > /tmp/file")
	startCount(t, e, source)
	at := sh(t, e, alice, source, counted)
	req := engine.ForkRequest{Count: 2, Key: "k", Metadata: map[string]string{"is": "child"}, Timeout: time.Hour}
	children, err := e.Fork(t.Context(), root, source, req)
	if err != nil || len(children) != 2 {
		t.Fatalf("%v, %v", children, err)
	}
	if err := e.Destroy(t.Context(), alice, source); err != nil {
		t.Error(err)
	}
	for _, child := range children {
		if child.Parent != source || child.Tenant != "alice" || child.Metadata["is"] != "child" || child.Expires.IsZero() {
			t.Errorf("%+v", child)
		}
		if got := sh(t, e, alice, child.ID, "cat /tmp/file"); got != "theirs" {
			t.Errorf("the child's file says %q", got)
		}
		goesOn(t, e, child.ID, at)
	}
	again, err := e.Fork(t.Context(), root, source, req)
	if err != nil || again[0].ID != children[0].ID || again[1].ID != children[1].ID {
		t.Errorf("the same key: %v, %v", again, err)
	}
	wantKinds(t, e, source, "created started forked ended")
	_, err = e.Fork(t.Context(), alice, children[0].ID, engine.ForkRequest{Count: 101})
	wantField(t, err, "count")
	_, err = e.Fork(t.Context(), alice, source, engine.ForkRequest{})
	wantClass(t, err, sandbox.NotFound)
}

// TestEndsByThemselves: what nobody asked to end has its cause.
func TestEndsByThemselves(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	id := create(t, e, alice, engine.CreateRequest{Spec: sandbox.Spec{Timeouts: sandbox.Timeouts{Lifetime: 100 * time.Millisecond}}}).ID
	if s := inState(t, e, id, engine.Ended); s.Exit.Cause != sandbox.Expired {
		t.Errorf("%+v", s.Exit)
	}
	wantKinds(t, e, id, "created started ended")
}

// TestCannotBeKept: of what Close cannot keep whole, files are kept, and what it has no time
// for has ended; the next engine says why.
func TestCannotBeKept(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	id := create(t, e, alice, engine.CreateRequest{Keep: true}).ID
	startUnkeepable(t, e, id)
	h.close(e)
	e = h.open()
	inState(t, e, id, engine.Running)
	sh(t, e, alice, id, "[ -e /tmp/talks ] && ! grep -q python3 /proc/[0-9]*/comm")
	wantKinds(t, e, id, "created started paused resumed")
	said := 0
	for _, event := range happened(t, e, alice) {
		if event.Detail["fidelity"] == string(sandbox.Filesystem) && strings.Contains(event.Detail["reason"], "TCP") {
			said++
		}
	}
	if said != 2 {
		t.Errorf("why was said %d times, and not when it was paused and resumed", said)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.Close(over); err != nil {
		t.Error(err)
	}
	s := get(t, h.open(), alice, id)
	if s.State != engine.Ended || s.Exit.Cause != sandbox.Stopped || !strings.Contains(s.Exit.Detail, "canceled") {
		t.Errorf("%+v", s)
	}
}

// TestDamagedRecord: it stops nobody.
func TestDamagedRecord(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	var ids []string
	for range 3 {
		ids = append(ids, create(t, e, alice, engine.CreateRequest{}).ID)
		if _, err := e.Pause(t.Context(), alice, ids[len(ids)-1], ""); err != nil {
			t.Fatal(err)
		}
	}
	h.close(e)
	home := func(id string) string { return filepath.Join(h.dir, "state", "sandboxes", id) }
	if err := os.WriteFile(filepath.Join(home(ids[0]), "record"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(home(ids[1]), "kept-1")); err != nil {
		t.Fatal(err)
	}
	logged := &records{}
	opts := h.options()
	opts.Logger = slog.New(slog.NewTextHandler(logged, nil))
	e, err := engine.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close(e)
	_, err = e.Get(t.Context(), alice, ids[0])
	wantClass(t, err, sandbox.NotFound)
	if len(logged.with(ids[0])) == 0 {
		t.Errorf("the log: %q", logged.with(""))
	}
	if s := get(t, e, alice, ids[1]); s.State != engine.Ended || s.Exit.Cause != sandbox.Lost {
		t.Errorf("%+v", s)
	}
	if _, err := e.Resume(t.Context(), alice, ids[2], ""); err != nil {
		t.Error(err)
	}
}

// TestManyAtOnce: callers that do everything to few sandboxes at once are each answered,
// and nothing is left.
func TestManyAtOnce(t *testing.T) {
	before := runtime.NumGoroutine()
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	var ids []string
	for range 4 {
		ids = append(ids, create(t, e, alice, engine.CreateRequest{AutoResume: true, Keep: true}).ID)
	}
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			for i := range 6 {
				id := ids[(n+i)%len(ids)]
				if err := anyCall(t.Context(), e, id, n+i); err != nil && sandbox.ClassOf(err) != sandbox.Conflict && sandbox.ClassOf(err) != sandbox.NotFound {
					t.Errorf("%d: %v", (n+i)%6, err)
				}
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if got := sh(t, e, alice, id, "echo there"); got != "there" {
			t.Errorf("%s says %q", id, got)
		}
	}
	h.close(e)
	if !eventually(func() bool { return runtime.NumGoroutine() <= before }) {
		t.Errorf("%d goroutines are left of %d", runtime.NumGoroutine(), before)
	}
}

// anyCall does one of the things that can be done to a sandbox.
func anyCall(ctx context.Context, e *engine.Engine, id string, which int) (err error) {
	switch which % 6 {
	case 0:
		_, err = e.Pause(ctx, alice, id, "")
	case 1:
		_, err = e.Resume(ctx, alice, id, "")
	case 2:
		var children []engine.Sandbox
		if children, err = e.Fork(ctx, alice, id, engine.ForkRequest{}); err == nil {
			err = e.Destroy(ctx, alice, children[0].ID)
		}
	case 3:
		_, err = e.SetMetadata(ctx, alice, id, map[string]string{"n": "1"})
	case 4:
		_, err = e.List(ctx, alice, engine.Query{States: []engine.State{engine.Running}})
	case 5:
		var release func()
		if _, release, err = e.Guest(ctx, alice, id); err == nil {
			release()
		}
	}
	return err
}
