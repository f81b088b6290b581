package engine_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/engine"
	"aether/engine/access"
	"aether/sandbox"
)

// quotaHouse is a house in which every tenant has this quota.
func quotaHouse(t testing.TB, keep sandbox.Fidelity, quota access.Quota) *house {
	h := newHouse(t, keep)
	h.access.Default.Quota = quota
	return h
}

// wantExhausted wants a refusal by that field which says when to try again.
func wantExhausted(t testing.TB, err error, field string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != sandbox.Exhausted || e.Field != field || !e.Retry || e.After <= 0 {
		t.Errorf("%v (%+v), want exhausted by %s with a time to wait", err, e, field)
	}
}

// TestQuotaBoundsATenant: what a tenant has is counted over creation, forks and restarts,
// and counted no more when it ends; other tenants and operators are not touched by it.
func TestQuotaBoundsATenant(t *testing.T) {
	h := quotaHouse(t, sandbox.Checkpoint, access.Quota{Sandboxes: new(int64(2))})
	e := h.open()
	kept := create(t, e, alice, engine.CreateRequest{Keep: true})
	second := create(t, e, alice, engine.CreateRequest{})
	_, err := e.Create(t.Context(), alice, engine.CreateRequest{})
	wantExhausted(t, err, "quota.sandboxes")
	_, err = e.Fork(t.Context(), alice, kept.ID, engine.ForkRequest{})
	wantExhausted(t, err, "quota.sandboxes")
	create(t, e, bob, engine.CreateRequest{})

	if err := e.Destroy(t.Context(), alice, second.ID); err != nil {
		t.Fatal(err)
	}
	_, err = e.Fork(t.Context(), alice, kept.ID, engine.ForkRequest{Count: 2})
	wantExhausted(t, err, "quota.sandboxes")
	if _, err := e.Fork(t.Context(), alice, kept.ID, engine.ForkRequest{}); err != nil {
		t.Error(err)
	}
	if _, err := e.Fork(t.Context(), root, kept.ID, engine.ForkRequest{}); err != nil {
		t.Errorf("an operator: %v", err)
	}

	h.close(e)
	e = h.open()
	if used, _, err := e.Used(t.Context(), alice, alice.Tenant); err != nil || used.Sandboxes != 1 {
		t.Errorf("after a restart %+v, %v", used, err)
	}
	_, _, err = e.Used(t.Context(), bob, alice.Tenant)
	wantClass(t, err, sandbox.NotFound)
}

// TestEndedTakesNothing: who is told of the end of a sandbox can have its part of the quota and
// delete its volumes at once.
func TestEndedTakesNothing(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	var written func() error // before the end is
	e, err := engine.Open(h.options().BeforeWrite(func() error {
		if written == nil {
			return nil
		}
		return written()
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.close(e) })
	if _, err := e.CreateVolume(t.Context(), alice, engine.VolumeRequest{Name: "data"}); err != nil {
		t.Fatal(err)
	}
	s := create(t, e, alice, engine.CreateRequest{Volumes: []engine.VolumeMount{{Name: "data", Target: "/data"}}})
	written = func() error {
		used, _, err := e.Used(t.Context(), alice, "alice")
		v, failed := e.GetVolume(t.Context(), alice, "", "data")
		if err != nil || failed != nil || used.Sandboxes != 0 || len(v.Sandboxes) > 0 {
			t.Errorf("%+v, %+v, %v, %v", used, v, err, failed)
		}
		return nil
	}
	err = e.Destroy(t.Context(), alice, s.ID)
	if written = nil; err != nil {
		t.Error(err)
	}
}

// TestFailedCreationTakesNothing: neither does one that the host or the driver refuses.
func TestFailedCreationTakesNothing(t *testing.T) {
	h := quotaHouse(t, sandbox.Filesystem, access.Quota{Sandboxes: new(int64(1))})
	h.access.Default.Policy.Images = []string{"/no/such/image"}
	e := h.open()
	for range 3 {
		if _, err := e.Create(t.Context(), alice, engine.CreateRequest{Spec: sandbox.Spec{Image: "/no/such/image"}}); err == nil || sandbox.ClassOf(err) == sandbox.Exhausted {
			t.Errorf("%v", err)
		}
	}
	create(t, e, alice, engine.CreateRequest{})
	h.access.Host.MemoryReserveBytes = new(int64(1 << 50))
	if err := e.SetAccess(h.access); err != nil {
		t.Fatal(err)
	}
	_, err := e.Create(t.Context(), bob, engine.CreateRequest{})
	wantExhausted(t, err, "")
	if used, _, err := e.Used(t.Context(), root, bob.Tenant); err != nil || used != (access.Use{}) {
		t.Errorf("%+v, %v", used, err)
	}
}

// TestPausedTakesNoMemory of the quota, and what has taken its place meanwhile keeps it
// from being resumed.
func TestPausedTakesNoMemory(t *testing.T) {
	h := quotaHouse(t, sandbox.Checkpoint, access.Quota{MemoryBytes: new(int64(96 << 20))})
	e := h.open()
	spec := sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 64 << 20}}
	first, err := e.Create(t.Context(), alice, engine.CreateRequest{Spec: spec})
	if c := sandbox.ClassOf(err); c == sandbox.Unavailable || c == sandbox.Unsupported {
		t.Skipf("memory cannot be limited here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Create(t.Context(), alice, engine.CreateRequest{Spec: spec})
	wantExhausted(t, err, "quota.memory_bytes")
	if _, err := e.Pause(t.Context(), alice, first.ID, ""); err != nil {
		t.Fatal(err)
	}
	second := create(t, e, alice, engine.CreateRequest{Spec: spec})
	_, err = e.Resume(t.Context(), alice, first.ID, "")
	wantExhausted(t, err, "quota.memory_bytes")
	if err := e.Destroy(t.Context(), alice, second.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Resume(t.Context(), alice, first.ID, ""); err != nil {
		t.Error(err)
	}
}

// TestTenantNamesNothingOfTheHost: what its policy does not list is refused before any
// driver sees it.
func TestTenantNamesNothingOfTheHost(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	for field, spec := range map[string]sandbox.Spec{
		"mounts":  {Mounts: []sandbox.Mount{{Source: "/etc", Target: "/mnt"}}},
		"image":   {Image: "/"},
		"network": {Network: sandbox.Network{Mode: sandbox.HostNetwork}},
	} {
		_, err := e.Create(t.Context(), alice, engine.CreateRequest{Spec: spec})
		wantClass(t, err, sandbox.Denied)
		if err != nil && !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	mounted := create(t, e, root, engine.CreateRequest{Spec: sandbox.Spec{Mounts: []sandbox.Mount{{Source: "/etc", Target: "/mnt"}}}})
	if got := sh(t, e, root, mounted.ID, "ls /mnt/passwd"); got != "/mnt/passwd" {
		t.Errorf("an operator's mount has %q", got)
	}
}

// TestCallsAreOnTheTrail of the state directory.
func TestCallsAreOnTheTrail(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	e := h.open()
	e.Record(alice, "192.0.2.1:99", "sandbox.create", "x", time.Now(), &sandbox.Error{Class: sandbox.Denied, Reason: "no"})
	h.close(e)
	files, err := filepath.Glob(filepath.Join(h.dir, "state", "audit*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var entry access.Entry
	if err := json.Unmarshal(text, &entry); err != nil || entry.Tenant != "alice" || entry.From != "192.0.2.1:99" || entry.Result != "denied" || entry.On != "x" {
		t.Errorf("%s: %+v, %v", text, entry, err)
	}
}
