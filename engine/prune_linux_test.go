package engine_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/engine"
	"aether/sandbox"
)

// imageFile is an archive of an image with one file of this content.
func imageFile(t testing.TB, content string) string {
	t.Helper()
	layer := tarFile(t, map[string]string{"content": content})
	config := fmt.Sprintf(`{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":["sha256:%x"]}}`, sha256.Sum256(layer))
	manifest := `[{"Config":"config.json","Layers":["layer.tar"]}]`
	name := filepath.Join(t.TempDir(), "image.tar")
	archive := tarFile(t, map[string]string{"manifest.json": manifest, "config.json": config, "layer.tar": string(layer)})
	if err := os.WriteFile(name, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func tarFile(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// removed are the kinds and names of a report, without directories.
func removed(r engine.PruneReport) string {
	var list []string
	for _, one := range r.Removed {
		list = append(list, one.Kind+" "+filepath.Base(filepath.Dir(one.Name))+"/"+filepath.Base(one.Name))
	}
	return strings.Join(list, ", ")
}

func prune(t testing.TB, e *engine.Engine, req engine.PruneRequest) engine.PruneReport {
	t.Helper()
	report, err := e.Prune(t.Context(), root, req)
	if err != nil || len(report.Kept) > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	return report
}

// TestPrune: what a record refers to stays, whether it runs or is paused, and everything
// else goes.
func TestPrune(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	_, err := e.Prune(t.Context(), alice, engine.PruneRequest{})
	wantClass(t, err, sandbox.Denied)

	needed, other := imageFile(t, "needed"), imageFile(t, strings.Repeat("other", 10_000))
	kept := create(t, e, root, engine.CreateRequest{Spec: sandbox.Spec{Image: needed}}).ID
	gone := create(t, e, root, engine.CreateRequest{Spec: sandbox.Spec{Image: other}}).ID
	if report := prune(t, e, engine.PruneRequest{}); len(report.Removed) > 0 {
		t.Errorf("while both run: %+v", report)
	}
	if err := e.Destroy(t.Context(), root, gone); err != nil {
		t.Fatal(err)
	}
	want := "image " + filepath.Base(filepath.Dir(other)) + "/image.tar"
	would := prune(t, e, engine.PruneRequest{DryRun: true})
	if removed(would) != want || would.Bytes < 50_000 {
		t.Errorf("would remove %s, %d bytes", removed(would), would.Bytes)
	}
	if did := prune(t, e, engine.PruneRequest{}); removed(did) != want || did.Bytes != would.Bytes {
		t.Errorf("removed %s, %d bytes", removed(did), did.Bytes)
	}
	if _, err := e.Pause(t.Context(), root, kept, ""); err != nil {
		t.Fatal(err)
	}
	if did := prune(t, e, engine.PruneRequest{}); len(did.Removed) > 0 {
		t.Errorf("while it is paused: %s", removed(did))
	}
	if _, err := e.Resume(t.Context(), root, kept, ""); err != nil {
		t.Errorf("what is needed is gone: %v", err)
	}
	again := create(t, e, root, engine.CreateRequest{Spec: sandbox.Spec{Image: other}}).ID // and can be had again
	snapshot, err := e.Snapshot(t.Context(), root, again, engine.SnapshotRequest{Fidelity: sandbox.Filesystem})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Destroy(t.Context(), root, again); err != nil {
		t.Fatal(err)
	}
	if did := prune(t, e, engine.PruneRequest{}); len(did.Removed) > 0 {
		t.Errorf("while there is a snapshot: %s", removed(did))
	}
	create(t, e, root, engine.CreateRequest{Snapshot: snapshot.ID})
}

// TestPruneState: what is left in homes, and records that were damaged long ago; homes that
// nobody is changing are looked at however long the others took.
func TestPruneState(t *testing.T) {
	t.Cleanup(engine.HomeWait(patience))
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	paused, running := create(t, e, alice, engine.CreateRequest{}).ID, create(t, e, alice, engine.CreateRequest{}).ID
	if _, err := e.Pause(t.Context(), alice, paused, ""); err != nil {
		t.Fatal(err)
	}
	state := func(parts ...string) string { return filepath.Join(append([]string{h.dir, "state"}, parts...)...) }
	old := fmt.Sprintf("sandboxes-old-%d", time.Now().Add(-8*24*time.Hour).UnixNano())
	young := fmt.Sprintf("sandboxes-young-%d", time.Now().Add(-time.Hour).UnixNano())
	for _, dir := range []string{state("sandboxes", running, "kept-9"), state("sandboxes", paused, "kept-9"), state("damaged", old), state("damaged", young)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(state("damaged", old+".reason"), []byte("why"), 0o600); err != nil {
		t.Fatal(err)
	}
	prune(t, e, engine.PruneRequest{DryRun: true}) // which waits for what is left of the pause
	engine.HomeWait(0)
	would, did := prune(t, e, engine.PruneRequest{DryRun: true}), prune(t, e, engine.PruneRequest{})
	if removed(did) != removed(would) || len(did.Removed) != 4 {
		t.Errorf("would remove %s and removed %s", removed(would), removed(did))
	}
	if _, err := os.Stat(state("damaged", young)); err != nil {
		t.Error(err)
	}
	if _, err := e.Resume(t.Context(), alice, paused, ""); err != nil {
		t.Errorf("its checkpoint is gone: %v", err)
	}
}

// TestDiskBudget: what nobody needs stays within it, and goes when it is over.
func TestDiskBudget(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	e := h.open()
	id := create(t, e, root, engine.CreateRequest{Spec: sandbox.Spec{Image: imageFile(t, "other")}}).ID
	if err := e.Destroy(t.Context(), root, id); err != nil {
		t.Fatal(err)
	}
	for i, budget := range []int64{1 << 30, 0} {
		h.access.Host.UnusedDiskBytes = &budget
		if err := e.SetAccess(h.access); err != nil {
			t.Fatal(err)
		}
		if err := e.KeepBudget(t.Context()); err != nil {
			t.Fatal(err)
		}
		if report := prune(t, e, engine.PruneRequest{DryRun: true}); len(report.Removed) != 1-i {
			t.Errorf("with a budget of %d, there are %+v", budget, report)
		}
	}
}
