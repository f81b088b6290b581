package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/engine"
	"aether/engine/access"
	"aether/sandbox"
)

func rollback(t testing.TB, e *engine.Engine, id string, req engine.RollbackRequest) engine.Sandbox {
	t.Helper()
	s, err := e.Rollback(t.Context(), alice, id, req)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRollback: a sandbox is again what it was, its memory and its files, under its id and
// for those who have a client of it, as often as one likes.
func TestRollback(t *testing.T) {
	e := newHouse(t, sandbox.Checkpoint).open()
	made := create(t, e, alice, engine.CreateRequest{Timeout: time.Hour})
	id := made.ID
	secret := startPython(t, e, id)
	sh(t, e, alice, id, "echo before > /tmp/file; echo whole > /tmp/gone")
	s := snapshot(t, e, id, engine.SnapshotRequest{})
	mark, err := e.Mark(t.Context(), alice, id, "here")
	if err != nil || mark.Name != "here" {
		t.Fatalf("%+v, %v", mark, err)
	}
	for _, to := range []engine.RollbackRequest{{Snapshot: s.ID}, {Mark: "here"}, {Mark: "here"}, {Snapshot: s.ID}} {
		sh(t, e, alice, id, "echo after > /tmp/file; rm /tmp/gone; kill $(cat /proc/[0-9]*/stat | sed -n 's/^\\([0-9]*\\) (python3).*/\\1/p')")
		now := rollback(t, e, id, to)
		if now.ID != id || now.State != engine.Running || !now.Expires.Equal(made.Expires) {
			t.Errorf("%+v: %+v", to, now)
		}
		if got := sh(t, e, alice, id, "cat /tmp/file /tmp/gone"); got != "before\nwhole" {
			t.Errorf("%+v: the files say %q", to, got)
		}
		remembers(t, e, id, secret)
	}
	rollback(t, e, id, engine.RollbackRequest{Snapshot: s.ID, Fidelity: sandbox.Filesystem})
	sh(t, e, alice, id, "grep -q before /tmp/file && ! grep -q python3 /proc/[0-9]*/comm")
	wantKinds(t, e, id, "created started snapshotted"+strings.Repeat(" rolled_back", 5))
	// What was made of a snapshot can go back to it, and a paused one runs then.
	other := create(t, e, alice, engine.CreateRequest{Snapshot: s.ID}).ID
	if _, err := e.Pause(t.Context(), alice, other, ""); err != nil {
		t.Fatal(err)
	}
	rollback(t, e, other, engine.RollbackRequest{Snapshot: s.ID})
	remembers(t, e, other, secret)
}

// TestRollbackThatFails leaves the sandbox as it was, running or paused.
func TestRollbackThatFails(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	id, other := create(t, e, alice, engine.CreateRequest{}).ID, create(t, e, alice, engine.CreateRequest{}).ID
	secret := startPython(t, e, id)
	s := snapshot(t, e, id, engine.SnapshotRequest{})
	_, err := e.Rollback(t.Context(), alice, other, engine.RollbackRequest{Snapshot: s.ID})
	wantClass(t, err, sandbox.Conflict)
	_, err = e.Rollback(t.Context(), alice, id, engine.RollbackRequest{Mark: "none"})
	wantClass(t, err, sandbox.NotFound)
	for _, req := range []engine.RollbackRequest{{}, {Snapshot: s.ID, Mark: "m"}, {Mark: "m", Fidelity: sandbox.Filesystem}, {Snapshot: s.ID, Fidelity: "most"}} {
		_, err = e.Rollback(t.Context(), alice, id, req)
		wantClass(t, err, sandbox.Invalid)
	}
	if err := os.RemoveAll(filepath.Join(h.dir, "state", "snapshots", s.ID, "state")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Rollback(t.Context(), alice, id, engine.RollbackRequest{Snapshot: s.ID}); err == nil {
		t.Error("it was rolled back to nothing")
	}
	remembers(t, e, id, secret)
	if _, err := e.Pause(t.Context(), alice, id, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Rollback(t.Context(), alice, id, engine.RollbackRequest{Snapshot: s.ID}); err == nil {
		t.Error("it was rolled back to nothing")
	}
	if got := get(t, e, alice, id); got.State != engine.Paused {
		t.Errorf("%+v", got)
	}
	if _, err := e.Resume(t.Context(), alice, id, ""); err != nil {
		t.Fatal(err)
	}
	remembers(t, e, id, secret)
	if err := e.Destroy(t.Context(), alice, id); err != nil {
		t.Fatal(err)
	}
	_, err = e.Rollback(t.Context(), alice, id, engine.RollbackRequest{Snapshot: s.ID})
	wantClass(t, err, sandbox.NotFound)
}

// TestEverythingAtOnce has many take snapshots of two sandboxes, make others of them, roll
// back, mark and delete: each call succeeds, or is refused because another was first.
func TestEverythingAtOnce(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	ids := []string{create(t, e, alice, engine.CreateRequest{}).ID, create(t, e, alice, engine.CreateRequest{}).ID}
	var all sync.WaitGroup
	for worker := range 6 {
		all.Go(func() {
			for n := range 5 {
				if err := takeTurn(t.Context(), e, ids[worker%2], fmt.Sprintf("%d-%d", worker, n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		sh(t, e, alice, id, "true")
		if err := e.Destroy(t.Context(), alice, id); err != nil {
			t.Error(err)
		}
	}
	if used, _, err := e.Used(t.Context(), alice, "alice"); err != nil || used != (access.Use{}) {
		t.Errorf("when everything has ended, the tenant has %+v, %v", used, err)
	}
	if !eventually(func() bool { return h.stored() == 0 && len(h.layers()) == 0 }) {
		t.Errorf("%d bytes and the layers %v are left", h.stored(), h.layers())
	}
}

// takeTurn does everything once, and has no mark if others have as many as may be.
func takeTurn(ctx context.Context, e *engine.Engine, id, name string) error {
	s, err := e.Snapshot(ctx, alice, id, engine.SnapshotRequest{Fidelity: sandbox.Filesystem})
	if err != nil {
		return err
	}
	made, err := e.Create(ctx, alice, engine.CreateRequest{Snapshot: s.ID})
	if err != nil {
		return err
	}
	_, rolled := e.Rollback(ctx, alice, id, engine.RollbackRequest{Snapshot: s.ID})
	_, marked := e.Mark(ctx, alice, id, name)
	if sandbox.ClassOf(marked) != sandbox.Exhausted {
		_, back := e.Rollback(ctx, alice, id, engine.RollbackRequest{Mark: name})
		marked = errors.Join(marked, back, e.DeleteMark(ctx, alice, id, name))
	} else {
		marked = nil
	}
	return errors.Join(rolled, marked, e.DeleteSnapshot(ctx, alice, s.ID), e.Destroy(ctx, alice, made.ID))
}

// TestMarksAreBounded: so many of a sandbox, which take of the tenant's memory, are listed
// and deleted, and end with the sandbox or when it is paused.
func TestMarksAreBounded(t *testing.T) {
	h := quotaHouse(t, sandbox.Checkpoint, access.Quota{MemoryBytes: new(int64(640 << 20))})
	e := h.open()
	id := create(t, e, alice, engine.CreateRequest{AutoResume: true, Spec: sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 64 << 20}}}).ID
	names := func() (list []string) {
		t.Helper()
		marks, err := e.Marks(t.Context(), alice, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range marks {
			list = append(list, m.Name)
		}
		return list
	}
	used := func() int64 {
		t.Helper()
		used, _, err := e.Used(t.Context(), alice, "alice")
		if err != nil {
			t.Fatal(err)
		}
		return used.MemoryBytes >> 20
	}
	for i := range 8 {
		if m, err := e.Mark(t.Context(), alice, id, ""); err != nil || m.Name != fmt.Sprint(i+1) {
			t.Fatalf("%+v, %v", m, err)
		}
	}
	_, err := e.Mark(t.Context(), alice, id, "")
	wantClass(t, err, sandbox.Exhausted)
	if got := fmt.Sprint(names(), used()); got != "[1 2 3 4 5 6 7 8] 576" {
		t.Errorf("marks: %s", got)
	}
	other := create(t, e, alice, engine.CreateRequest{Spec: sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 64 << 20}}}).ID
	_, err = e.Mark(t.Context(), alice, other, "m")
	wantExhausted(t, err, "quota.memory_bytes")
	for _, name := range []string{"3", "5"} {
		if err := e.DeleteMark(t.Context(), alice, id, name); err != nil {
			t.Fatal(err)
		}
	}
	wantClass(t, e.DeleteMark(t.Context(), alice, id, "3"), sandbox.NotFound)
	wantClass(t, e.DeleteMark(t.Context(), bob, id, "4"), sandbox.NotFound)
	_, err = e.Marks(t.Context(), bob, id)
	wantClass(t, err, sandbox.NotFound)
	_, err = e.Mark(t.Context(), alice, id, "4")
	wantClass(t, err, sandbox.Conflict)
	_, err = e.Mark(t.Context(), alice, id, "No Name")
	wantField(t, err, "name")
	if got := fmt.Sprint(names(), used()); got != "[1 2 4 6 7 8] 512" {
		t.Errorf("marks: %s", got)
	}
	if _, err := e.Pause(t.Context(), alice, id, ""); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(names(), used()); got != "[] 64" {
		t.Errorf("marks of a paused sandbox: %s", got)
	}
	if _, err := e.Mark(t.Context(), alice, id, "again"); err != nil { // which resumes it
		t.Fatal(err)
	}
	for _, id := range []string{id, other} {
		if err := e.Destroy(t.Context(), alice, id); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(names(), used()); got != "[] 0" {
		t.Errorf("marks of one that has ended: %s", got)
	}
}
