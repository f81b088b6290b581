package engine_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"aether/engine"
	"aether/guest"
	snapshots "aether/image/snapshot"
	"aether/sandbox"
)

// TestDoctor: a paused sandbox that cannot go on is found, with the reason, and those that
// can are not.
func TestDoctor(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	_, err := e.Doctor(t.Context(), alice)
	wantClass(t, err, sandbox.Denied)
	var ids []string
	for range 3 {
		id := create(t, e, alice, engine.CreateRequest{}).ID
		startSleep(t, e, id)
		if _, err := e.Pause(t.Context(), alice, id, ""); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	diagnosis := func() engine.Diagnosis {
		t.Helper()
		d, err := e.Doctor(t.Context(), root)
		if err != nil || d.Paused != len(ids) {
			t.Fatalf("%+v, %v", d, err)
		}
		return d
	}
	if d := diagnosis(); len(d.Stuck) > 0 {
		t.Fatalf("%+v", d)
	}
	kept := filepath.Join(h.dir, "state", "sandboxes", ids[0], "kept-1")
	forgeMachine(t, kept)
	d := diagnosis()
	if len(d.Stuck) != 1 || d.Stuck[0].ID != ids[0] || !strings.Contains(d.Stuck[0].Reason, "another kernel") || d.Stuck[0].Remedy == "" || !d.Stuck[0].Files {
		t.Errorf("%+v", d)
	}
	if err := os.Remove(filepath.Join(h.dir, "state", "sandboxes", ids[1], "kept-1", "snapshot.json")); err != nil {
		t.Fatal(err)
	}
	if d := diagnosis(); len(d.Stuck) != 2 || d.Stuck[1].ID != ids[1] || d.Stuck[1].Files {
		t.Errorf("%+v", d)
	}
	if _, err := e.Resume(t.Context(), alice, ids[2], ""); err != nil {
		t.Error(err)
	}
}

// startSleep leaves a process running that does nothing.
func startSleep(t testing.TB, e *engine.Engine, id string) {
	t.Helper()
	client, release, err := e.Guest(t.Context(), alice, id)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	running, err := client.Start(t.Context(), guest.Cmd{Path: "sleep", Args: []string{"600"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { running.Close() })
}

// TestFilesOverAChangedImage: they are to be had when the sandbox itself is not.
func TestFilesOverAChangedImage(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	e := h.open()
	image := imageFile(t, "before")
	id := create(t, e, root, engine.CreateRequest{Spec: sandbox.Spec{Image: image}}).ID
	client, release, err := e.Guest(t.Context(), root, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Write(t.Context(), "/work", strings.NewReader("precious")); err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := e.Pause(t.Context(), root, id, sandbox.Filesystem); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(imageFile(t, "after"), image); err != nil {
		t.Fatal(err)
	}
	_, err = e.Resume(t.Context(), root, id, "")
	wantClass(t, err, sandbox.Conflict)
	if d, err := e.Doctor(t.Context(), root); err != nil || len(d.Stuck) != 1 || !d.Stuck[0].Files || !strings.Contains(d.Stuck[0].Reason, "digest") {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := e.Resume(t.Context(), root, id, sandbox.Filesystem); err != nil {
		t.Fatal(err)
	}
	client, release, err = e.Guest(t.Context(), root, id)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for path, want := range map[string]string{"/work": "precious", "/content": "after"} {
		file, err := client.Read(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(file); err != nil || string(text) != want {
			t.Errorf("%s holds %q, %v", path, text, err)
		}
		file.Close()
	}
}

// forgeMachine makes a checkpoint one of another kernel, with all digests right.
func forgeMachine(t testing.TB, dir string) {
	t.Helper()
	rec, err := snapshots.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "blobs", rec.Attached["processes"]))
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`"kernel":"[0-9a-f]{8}`).ReplaceAll(text, []byte(`"kernel":"00000000`))
	sum := sha256.Sum256(text)
	rec.Attached["processes"] = hex.EncodeToString(sum[:])
	record, err := json.Marshal(rec)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "blobs", rec.Attached["processes"]), text, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "snapshot.json"), record, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
