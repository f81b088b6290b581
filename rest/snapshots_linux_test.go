package rest_test

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"aether/driver/cell"
	"aether/engine"
	"aether/image"
	"aether/rest"
	"aether/sandbox"
)

// openEngine opens a door to a whole engine.
func openEngine(t *testing.T) *door {
	t.Helper()
	dir := t.TempDir()
	e, err := engine.Open(engine.Options{State: filepath.Join(dir, "state"), Drivers: []sandbox.Maker{{Name: cell.Name, New: func() sandbox.Driver {
		return cell.New(cell.Options{RunDir: filepath.Join(dir, "run"), Images: func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }})
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return openTo(t, e, rest.Limits{})
}

// said is what a command prints.
func said(t *testing.T, c *rest.Client, id string, command ...string) string {
	t.Helper()
	result, err := c.Exec(t.Context(), id, rest.ExecRequest{Command: command})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(result.Stdout.Text)
}

// TestSnapshotsByTheDoor: files are kept, given to others and gone back to, by key and
// page, and what is another tenant's does not exist.
func TestSnapshotsByTheDoor(t *testing.T) {
	d := openEngine(t)
	c := d.client(t, d.http, annsKey)
	box, err := c.Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	said(t, c, box.ID, "sh", "-c", "echo before > /tmp/file")
	req := engine.SnapshotRequest{Name: "first", Fidelity: sandbox.Filesystem, Metadata: map[string]string{"a": "1"}, Key: "once"}
	s, err := c.Snapshot(t.Context(), box.ID, req)
	if err != nil || s.Sandbox != box.ID || s.Fidelity != sandbox.Filesystem || s.Metadata["a"] != "1" {
		t.Fatalf("%+v, %v", s, err)
	}
	if again, err := c.Snapshot(t.Context(), box.ID, req); err != nil || again.ID != s.ID {
		t.Errorf("the same key gives %+v, %v", again, err)
	}
	if got, err := c.GetSnapshot(t.Context(), s.ID); err != nil || got.ID != s.ID {
		t.Errorf("%+v, %v", got, err)
	}
	for _, q := range []engine.SnapshotQuery{{}, {Name: "first", Sandbox: box.ID, Metadata: map[string]string{"a": "1"}, Limit: 1}} {
		if page, err := c.Snapshots(t.Context(), q); err != nil || len(page.Snapshots) != 1 || page.Next != "" {
			t.Errorf("%+v: %+v, %v", q, page, err)
		}
	}
	said(t, c, box.ID, "sh", "-c", "echo after > /tmp/file")
	made, err := c.Create(t.Context(), engine.CreateRequest{Snapshot: s.ID})
	if err != nil || made.Snapshot != s.ID || said(t, c, made.ID, "cat", "/tmp/file") != "before" {
		t.Errorf("%+v, %v", made, err)
	}
	if now, err := c.Rollback(t.Context(), box.ID, engine.RollbackRequest{Snapshot: s.ID}); err != nil || now.ID != box.ID || said(t, c, box.ID, "cat", "/tmp/file") != "before" {
		t.Errorf("%+v, %v", now, err)
	}
	bob := d.client(t, d.http, bobsKey)
	_, err = bob.GetSnapshot(t.Context(), s.ID)
	wantClass(t, err, sandbox.NotFound)
	wantClass(t, bob.DeleteSnapshot(t.Context(), s.ID), sandbox.NotFound)
	_, err = bob.Create(t.Context(), engine.CreateRequest{Snapshot: s.ID})
	wantClass(t, err, sandbox.NotFound)
	_, err = bob.Snapshot(t.Context(), box.ID, engine.SnapshotRequest{})
	wantClass(t, err, sandbox.NotFound)
	_, err = c.Rollback(t.Context(), box.ID, engine.RollbackRequest{})
	wantClass(t, err, sandbox.Invalid)
	for _, odd := range []string{"", "..", "../events", "A", strings.Repeat("a", 65)} {
		wantClass(t, c.DeleteSnapshot(t.Context(), odd), sandbox.NotFound)
	}
	if err := c.DeleteSnapshot(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
	_, err = c.GetSnapshot(t.Context(), s.ID)
	wantClass(t, err, sandbox.NotFound)
}

// TestMarksByTheDoor: a sandbox goes back to a mark, and marks come and go.
func TestMarksByTheDoor(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("cells are forked on amd64 only")
	}
	d := openEngine(t)
	c := d.client(t, d.http, annsKey)
	box, err := c.Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	said(t, c, box.ID, "sh", "-c", "echo before > /tmp/file")
	m, err := c.Mark(t.Context(), box.ID, "")
	if err != nil && sandbox.ClassOf(err) == sandbox.Unavailable {
		t.Skipf("this user cannot freeze: %v", err)
	}
	if err != nil || m.Name != "1" {
		t.Fatalf("%+v, %v", m, err)
	}
	said(t, c, box.ID, "sh", "-c", "echo after > /tmp/file")
	if _, err := c.Rollback(t.Context(), box.ID, engine.RollbackRequest{Mark: m.Name}); err != nil {
		t.Fatal(err)
	}
	if got := said(t, c, box.ID, "cat", "/tmp/file"); got != "before" {
		t.Errorf("the file says %q", got)
	}
	if list, err := c.Marks(t.Context(), box.ID); err != nil || len(list) != 1 || list[0].Name != "1" {
		t.Errorf("%+v, %v", list, err)
	}
	_, err = d.client(t, d.http, bobsKey).Marks(t.Context(), box.ID)
	wantClass(t, err, sandbox.NotFound)
	wantClass(t, c.DeleteMark(t.Context(), box.ID, "../1"), sandbox.NotFound)
	if err := c.DeleteMark(t.Context(), box.ID, "1"); err != nil {
		t.Error(err)
	}
	if list, err := c.Marks(t.Context(), box.ID); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestFidelityByTheDoor: a pause keeps what is asked for.
func TestFidelityByTheDoor(t *testing.T) {
	d := openEngine(t)
	c := d.local(t)
	box, err := c.Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Pause(t.Context(), box.ID, sandbox.Filesystem); err != nil || got.Fidelity != sandbox.Filesystem {
		t.Fatalf("%+v, %v", got, err)
	}
	_, err = c.Resume(t.Context(), box.ID, sandbox.Checkpoint)
	wantClass(t, err, sandbox.Conflict)
	if got, err := c.Resume(t.Context(), box.ID, sandbox.Filesystem); err != nil || got.State != engine.Running {
		t.Fatalf("%+v, %v", got, err)
	}
	_, err = c.Pause(t.Context(), box.ID, "most")
	if e := wantClass(t, err, sandbox.Invalid); e.Field != "fidelity" {
		t.Errorf("the field is %q", e.Field)
	}
}
