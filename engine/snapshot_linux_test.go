package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aether/engine"
	"aether/engine/access"
	"aether/guest"
	"aether/sandbox"
)

// remembering holds what no file has, and says with it how far it has counted.
const remembering = `
import os, time
secret, n = os.urandom(8).hex(), 0
while True:
    n += 1
    open("/tmp/said.new", "w").write(f"{secret} {n}"); os.rename("/tmp/said.new", "/tmp/said")
    time.sleep(0.005)`

// startPython leaves a python running that remembers, and gives what.
func startPython(t testing.TB, e *engine.Engine, id string) (secret string) {
	t.Helper()
	need(t, "python3")
	client, release, err := e.Guest(t.Context(), alice, id)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	running, err := client.Start(t.Context(), guest.Cmd{Path: "python3", Args: []string{"-c", remembering}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { running.Close() })
	secret, _, _ = strings.Cut(sh(t, e, alice, id, "until [ -e /tmp/said ]; do sleep 0.01; done; cat /tmp/said"), " ")
	return secret
}

// remembers wants a python that startPython has started to go on.
func remembers(t testing.TB, e *engine.Engine, id, secret string) {
	t.Helper()
	first := sh(t, e, alice, id, "cat /tmp/said")
	now := first
	if !eventually(func() bool { now = sh(t, e, alice, id, "cat /tmp/said"); return now != first }) {
		t.Errorf("%s stands still at %s", id, now)
	}
	if !strings.HasPrefix(now, secret+" ") {
		t.Errorf("%s says %s, and remembered %s", id, now, secret)
	}
}

func snapshot(t testing.TB, e *engine.Engine, id string, req engine.SnapshotRequest) engine.Snapshot {
	t.Helper()
	s, err := e.Snapshot(t.Context(), alice, id, req)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stored is how many bytes the store of the house's cells has.
func (h *house) stored() (bytes int64) {
	h.t.Helper()
	list, err := filepath.Glob(filepath.Join(h.dir, "run", "disks", "snapshots", "blobs", "*"))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, name := range list {
		if info, err := os.Stat(name); err == nil { // else it was just removed
			bytes += info.Size()
		}
	}
	return bytes
}

// layers are those that the store of the house's cells has unpacked.
func (h *house) layers() []string {
	h.t.Helper()
	list, err := filepath.Glob(filepath.Join(h.dir, "run", "disks", "snapshots", "layers", "*", "*"))
	if err != nil {
		h.t.Fatal(err)
	}
	return list
}

// TestSnapshotGoesOn: what a process remembers goes on in sandboxes of their own, twice and
// in another engine, while the source goes on too.
func TestSnapshotGoesOn(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	limits := sandbox.Limits{MemoryBytes: 256 << 20}
	source := create(t, e, alice, engine.CreateRequest{Spec: sandbox.Spec{Limits: limits}})
	secret := startPython(t, e, source.ID)
	sh(t, e, alice, source.ID, "echo before > /tmp/file")
	s := snapshot(t, e, source.ID, engine.SnapshotRequest{Name: "first", Metadata: map[string]string{"for": "me"}})
	if s.Fidelity != sandbox.Checkpoint || s.Sandbox != source.ID || s.Tenant != "alice" || s.Driver != source.Driver || s.Size < 1<<20 || s.Created.IsZero() || s.Spec.Limits != limits {
		t.Errorf("%+v", s)
	}
	sh(t, e, alice, source.ID, "echo after > /tmp/file")
	remembers(t, e, source.ID, secret)

	h.close(e)
	e = h.open()
	if got, err := e.GetSnapshot(t.Context(), alice, s.ID); err != nil || fmt.Sprint(got) != fmt.Sprint(s) {
		t.Errorf("after a restart %+v, %v", got, err)
	}
	var ids []string
	for range 2 {
		made := create(t, e, alice, engine.CreateRequest{Snapshot: s.ID})
		if made.ID == source.ID || made.Snapshot != s.ID || made.State != engine.Running || made.Spec.Limits != limits {
			t.Errorf("%+v", made)
		}
		remembers(t, e, made.ID, secret)
		if got := sh(t, e, alice, made.ID, "cat /tmp/file; echo mine > /tmp/file"); got != "before" {
			t.Errorf("its file says %q", got)
		}
		ids = append(ids, made.ID)
	}
	if ids[0] == ids[1] {
		t.Error("they have one id")
	}
	files := create(t, e, alice, engine.CreateRequest{Snapshot: s.ID, Fidelity: sandbox.Filesystem})
	sh(t, e, alice, files.ID, "grep -q before /tmp/file && ! grep -q python3 /proc/[0-9]*/comm")

	// What is made of a snapshot outlives it, and can be paused and resumed.
	if err := e.DeleteSnapshot(t.Context(), alice, s.ID); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return h.stored() < s.Size/10 }) {
		t.Errorf("the snapshot is deleted, and %d bytes of %d are left", h.stored(), s.Size)
	}
	for _, id := range ids {
		remembers(t, e, id, secret)
		if _, err := e.Pause(t.Context(), alice, id, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Resume(t.Context(), alice, id, ""); err != nil {
			t.Fatal(err)
		}
		remembers(t, e, id, secret)
	}
	_, err := e.Create(t.Context(), alice, engine.CreateRequest{Snapshot: s.ID})
	wantClass(t, err, sandbox.NotFound)
	wantClass(t, e.DeleteSnapshot(t.Context(), alice, s.ID), sandbox.NotFound)
}

// TestSnapshotKeepsWhatIsAskedFor: memory that cannot be kept is refused and leaves
// nothing; files can be had always, and nothing of the processes with them.
func TestSnapshotKeepsWhatIsAskedFor(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	id := create(t, e, alice, engine.CreateRequest{}).ID
	startUnkeepable(t, e, id)
	_, err := e.Snapshot(t.Context(), alice, id, engine.SnapshotRequest{})
	wantClass(t, err, sandbox.Conflict)
	if !strings.Contains(fmt.Sprint(err), "TCP") {
		t.Errorf("%v does not say why", err)
	}
	if page, err := e.Snapshots(t.Context(), alice, engine.SnapshotQuery{}); err != nil || len(page.Snapshots) != 0 {
		t.Errorf("a refused snapshot left %+v, %v", page, err)
	}
	if left, err := filepath.Glob(filepath.Join(h.dir, "state", "snapshots", "*")); err != nil || len(left) > 0 {
		t.Errorf("a refused snapshot left %v, %v", left, err)
	}
	s := snapshot(t, e, id, engine.SnapshotRequest{Fidelity: sandbox.Filesystem})
	made := create(t, e, alice, engine.CreateRequest{Snapshot: s.ID})
	sh(t, e, alice, made.ID, "[ -e /tmp/talks ] && ! grep -q python3 /proc/[0-9]*/comm")
	_, err = e.Create(t.Context(), alice, engine.CreateRequest{Snapshot: s.ID, Fidelity: sandbox.Checkpoint})
	wantClass(t, err, sandbox.Conflict)
	wantKinds(t, e, id, "created started snapshotted")
}

func TestSnapshotRefuses(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	id := create(t, e, alice, engine.CreateRequest{}).ID
	for field, req := range map[string]engine.SnapshotRequest{
		"name":     {Name: "No Name"},
		"fidelity": {Fidelity: "most"},
		"metadata": {Metadata: map[string]string{"": "x"}},
		"key":      {Key: strings.Repeat("k", 256)},
	} {
		_, err := e.Snapshot(t.Context(), alice, id, req)
		wantField(t, err, field)
	}
	s := snapshot(t, e, id, engine.SnapshotRequest{Fidelity: sandbox.Filesystem})
	for field, req := range map[string]engine.CreateRequest{
		"spec.image":   {Spec: sandbox.Spec{Image: "host"}, Snapshot: s.ID},
		"spec.mounts":  {Spec: sandbox.Spec{Mounts: []sandbox.Mount{{Source: "/usr", Target: "/mnt"}}}, Snapshot: s.ID},
		"spec.command": {Spec: sandbox.Spec{Command: sandbox.CommandDefaults{User: "root"}}, Snapshot: s.ID},
		"driver":       {Driver: "docker", Snapshot: s.ID},
		"fidelity":     {Fidelity: sandbox.Filesystem},
	} {
		_, err := e.Create(t.Context(), alice, req)
		wantField(t, err, field)
	}
	_, err := e.Create(t.Context(), alice, engine.CreateRequest{Snapshot: s.ID, Spec: sandbox.Spec{Isolation: sandbox.KernelBoundary}})
	wantField(t, err, "isolation")
	_, err = engine.New(engine.Options{}).Snapshot(t.Context(), alice, id, engine.SnapshotRequest{})
	wantClass(t, err, sandbox.Conflict)
}

// TestOthersSnapshotsDoNotExist: a tenant is answered about another's as about what never
// was, also where it is a source.
func TestOthersSnapshotsDoNotExist(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	mine := create(t, e, bob, engine.CreateRequest{}).ID
	source := create(t, e, alice, engine.CreateRequest{}).ID
	theirs := snapshot(t, e, source, engine.SnapshotRequest{Fidelity: sandbox.Filesystem, Key: "k"}).ID
	for name, call := range map[string]func(id string) error{
		"get":    func(id string) error { _, err := e.GetSnapshot(t.Context(), bob, id); return err },
		"delete": func(id string) error { return e.DeleteSnapshot(t.Context(), bob, id) },
		"create": func(id string) error {
			_, err := e.Create(t.Context(), bob, engine.CreateRequest{Snapshot: id})
			return err
		},
		"rollback": func(id string) error {
			_, err := e.Rollback(t.Context(), bob, mine, engine.RollbackRequest{Snapshot: id})
			return err
		},
		"an operator's rollback": func(id string) error {
			_, err := e.Rollback(t.Context(), root, mine, engine.RollbackRequest{Snapshot: id})
			return err
		},
	} {
		never := strings.Repeat("0", len(theirs))
		got, want := call(theirs), call(never)
		wantClass(t, got, sandbox.NotFound)
		if strings.ReplaceAll(fmt.Sprint(got), theirs, never) != fmt.Sprint(want) {
			t.Errorf("%s: %v, and of one that never was: %v", name, got, want)
		}
	}
	_, err := e.Snapshot(t.Context(), bob, source, engine.SnapshotRequest{Fidelity: sandbox.Filesystem})
	wantClass(t, err, sandbox.NotFound)
	for _, q := range []engine.SnapshotQuery{{}, {Tenant: "alice"}} {
		if page, err := e.Snapshots(t.Context(), bob, q); err != nil || len(page.Snapshots) != 0 {
			t.Errorf("the list: %+v, %v", page, err)
		}
	}
	if s, err := e.Snapshot(t.Context(), bob, mine, engine.SnapshotRequest{Fidelity: sandbox.Filesystem, Key: "k"}); err != nil || s.ID == theirs || s.Tenant != "bob" {
		t.Errorf("another tenant's key gave %+v, %v", s, err)
	}
	if s, err := e.GetSnapshot(t.Context(), root, theirs); err != nil || s.ID != theirs {
		t.Errorf("an operator: %+v, %v", s, err)
	}
}

// TestSnapshotKeys: the same key gives the same snapshot, also at once and after a restart.
func TestSnapshotKeys(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	e := h.open()
	id := create(t, e, alice, engine.CreateRequest{Keep: true, Key: "sandbox"}).ID
	req := engine.SnapshotRequest{Fidelity: sandbox.Filesystem, Key: "snapshot"}
	var all sync.WaitGroup
	var made sync.Map
	for range 4 {
		all.Go(func() {
			s, err := e.Snapshot(t.Context(), alice, id, req)
			made.Store(s.ID, err)
		})
	}
	all.Wait()
	count := 0
	for _, err := range made.Range {
		if count++; err != nil {
			t.Error(err)
		}
	}
	if count != 1 {
		t.Errorf("one key made %d snapshots", count)
	}
	first := snapshot(t, e, id, req).ID
	h.close(e)
	e = h.open()
	if again := snapshot(t, e, id, req).ID; again != first {
		t.Errorf("the key gave %s, and after a restart %s", first, again)
	}
	other := req
	other.Name = "other"
	_, err := e.Snapshot(t.Context(), alice, id, other)
	wantClass(t, err, sandbox.Conflict)
	other.Key = "sandbox"
	_, err = e.Snapshot(t.Context(), alice, id, other)
	wantClass(t, err, sandbox.Conflict)
	if err := e.DeleteSnapshot(t.Context(), alice, first); err != nil {
		t.Fatal(err)
	}
	_, err = e.Snapshot(t.Context(), alice, id, req)
	wantClass(t, err, sandbox.Conflict)
}

// TestSnapshotsAreListed: newest first, by pages and filters.
func TestSnapshotsAreListed(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	one, two := create(t, e, alice, engine.CreateRequest{}).ID, create(t, e, alice, engine.CreateRequest{}).ID
	var want []string
	for i := range 5 {
		req := engine.SnapshotRequest{Name: fmt.Sprintf("n%d", i), Fidelity: sandbox.Filesystem, Metadata: map[string]string{"half": fmt.Sprint(i % 2)}}
		want = append([]string{snapshot(t, e, []string{one, two}[i%2], req).ID}, want...)
	}
	walk := func(q engine.SnapshotQuery) (ids []string) {
		for {
			page, err := e.Snapshots(t.Context(), alice, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page.Snapshots {
				ids = append(ids, s.ID)
			}
			if q.After = page.Next; q.After == "" {
				return ids
			}
		}
	}
	for name, c := range map[string]struct {
		q    engine.SnapshotQuery
		want []string
	}{
		"all":      {engine.SnapshotQuery{}, want},
		"by two":   {engine.SnapshotQuery{Limit: 2}, want},
		"sandbox":  {engine.SnapshotQuery{Sandbox: two, Limit: 1}, []string{want[1], want[3]}},
		"name":     {engine.SnapshotQuery{Name: "n4"}, want[:1]},
		"metadata": {engine.SnapshotQuery{Metadata: map[string]string{"half": "1"}}, []string{want[1], want[3]}},
	} {
		if got := walk(c.q); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	_, err := e.Snapshots(t.Context(), alice, engine.SnapshotQuery{After: "x"})
	wantField(t, err, "after")
}

// TestSnapshotQuota: snapshots and their disk are counted over restarts, and no more when
// they are deleted or could not be taken.
func TestSnapshotQuota(t *testing.T) {
	h := quotaHouse(t, sandbox.Filesystem, access.Quota{Snapshots: new(int64(2)), DiskBytes: new(int64(8 << 20))})
	e := h.open()
	id := create(t, e, alice, engine.CreateRequest{Keep: true, Spec: sandbox.Spec{Limits: sandbox.Limits{DiskBytes: 4 << 20}}}).ID
	req := engine.SnapshotRequest{Fidelity: sandbox.Filesystem}
	sh(t, e, alice, id, "head -c 3000000 /dev/urandom > /tmp/large")
	first := snapshot(t, e, id, req)
	_, err := e.Snapshot(t.Context(), alice, id, req)
	wantExhausted(t, err, "quota.disk_bytes")
	sh(t, e, alice, id, "rm /tmp/large")
	small := snapshot(t, e, id, req)
	_, err = e.Snapshot(t.Context(), alice, id, req)
	wantExhausted(t, err, "quota.snapshots")
	h.close(e)
	e = h.open()
	used, _, err := e.Used(t.Context(), alice, "alice")
	if err != nil || used.Snapshots != 2 || used.DiskBytes != 4<<20+first.Size+small.Size {
		t.Errorf("%+v, %v", used, err)
	}
	if err := e.DeleteSnapshot(t.Context(), alice, first.ID); err != nil {
		t.Fatal(err)
	}
	if used, _, err := e.Used(t.Context(), alice, "alice"); err != nil || used.Snapshots != 1 || used.DiskBytes != 4<<20+small.Size {
		t.Errorf("%+v, %v", used, err)
	}
}
